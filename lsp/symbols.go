package lsp

// maxSymbols limits how deep the outline of a hostile text goes.
const maxSymbols = 16

// symbolKinds are the symbols that editors draw for blocks.
var symbolKinds = map[string]int{
	"fabric": symbolNamespace, "host": symbolClass, "nic": symbolInterface, "bond": symbolInterface, "vlan": symbolInterface,
	"variable": symbolVariable, "output": symbolProperty, "link": symbolEvent, "network": symbolEvent,
}

// documentSymbol returns the outline of a document: its blocks, and the locals.
func (s *server) documentSymbol(p documentParams) (any, *callError) {
	d, fault := s.native(p)
	if d == nil {
		return nil, fault
	}
	return d.file().symbols(d.file().root, 0), nil
}

func (f *file) symbols(b *body, depth int) []symbol {
	out := []symbol{}
	if depth == maxSymbols {
		return out
	}
	if b.block != nil && b.block.typ == "locals" {
		for _, a := range b.attrs {
			out = append(out, symbol{a.name, "", symbolVariable, f.text.textRange(span{a.nameSpan.start, a.value.end}), f.text.textRange(a.nameSpan), nil})
		}
	}
	for _, k := range b.blocks {
		y := symbol{k.typ, "", symbolObject, f.text.textRange(span{k.typSpan.start, min(k.body.span.end+1, len(f.text.src))}), f.text.textRange(k.typSpan),
			f.symbols(k.body, depth+1)}
		if k.label != "" {
			y.Name, y.Detail, y.SelectionRange = k.label, k.typ, f.text.textRange(k.labelSpan)
		}
		if kind := symbolKinds[k.typ]; kind != 0 {
			y.Kind = kind
		}
		out = append(out, y)
	}
	return out
}
