package lsp

import (
	"bytes"
	"strings"

	"github.com/fabricform/fabricform/config"
)

// handlers maps the methods for documents to functions. The result of a notification is not sent.
var handlers = map[string]func(*server, documentParams) (any, *callError){
	"initialized":                 func(*server, documentParams) (any, *callError) { return nil, nil },
	"textDocument/didOpen":        (*server).didOpen,
	"textDocument/didChange":      (*server).didChange,
	"textDocument/didSave":        (*server).didSave,
	"textDocument/didClose":       (*server).didClose,
	"textDocument/completion":     (*server).completion,
	"textDocument/hover":          (*server).hover,
	"textDocument/definition":     (*server).definition,
	"textDocument/formatting":     (*server).formatting,
	"textDocument/codeAction":     (*server).codeAction,
	"textDocument/documentSymbol": (*server).documentSymbol,
	"textDocument/references":     (*server).references,
	"textDocument/prepareRename":  (*server).prepareRename,
	"textDocument/rename":         (*server).rename,
	"textDocument/signatureHelp":  (*server).signatureHelp,
}

// didOpen stores an opened text, which need not belong to a file.
func (s *server) didOpen(p documentParams) (any, *callError) {
	t := p.TextDocument
	path, err := uriPath(t.URI)
	if err != nil {
		path = ""
	}
	d := &document{uri: t.URI, path: path, version: t.Version, text: []byte(t.Text)}
	s.docs.open[t.URI] = d
	s.noteChanged(d)
	return nil, nil
}

func (s *server) didChange(p documentParams) (any, *callError) {
	d, fault := s.document(p)
	if fault != nil || len(p.ContentChanges) == 0 {
		return nil, fault
	}
	d.text = []byte(p.ContentChanges[len(p.ContentChanges)-1].Text)
	d.version, d.outline = p.TextDocument.Version, nil
	s.noteChanged(d)
	return nil, nil
}

// didSave checks the fabric again, because files that are not open may have changed as well.
func (s *server) didSave(p documentParams) (any, *callError) {
	d, fault := s.document(p)
	if fault == nil {
		s.noteChanged(d)
	}
	return nil, fault
}

func (s *server) didClose(p documentParams) (any, *callError) {
	d, fault := s.document(p)
	if fault == nil {
		delete(s.docs.open, d.uri)
		s.noteChanged(d)
	}
	return nil, fault
}

func (s *server) document(p documentParams) (*document, *callError) {
	if d := s.docs.open[p.TextDocument.URI]; d != nil {
		return d, nil
	}
	return nil, &callError{codeInvalidParams, p.TextDocument.URI + " is not open: send textDocument/didOpen first"}
}

// native returns the document if it belongs to a fabric and has HCL's native syntax. For JSON, editors use
// the schema.
func (s *server) native(p documentParams) (*document, *callError) {
	d, fault := s.document(p)
	if fault == nil && d.path != "" && (!d.isFabric() || strings.HasSuffix(d.path, ".json")) {
		return nil, nil
	}
	return d, fault
}

func (s *server) completion(p documentParams) (any, *callError) {
	d, fault := s.native(p)
	if d == nil {
		return nil, fault
	}
	items := complete(s.docs.fabric(d), d.file(), d.file().text.offset(p.Position), s.snippets)
	if items == nil {
		items = []completionItem{}
	}
	return completionList{Items: items}, nil
}

func (s *server) hover(p documentParams) (any, *callError) {
	d, fault := s.native(p)
	if d == nil {
		return nil, fault
	}
	markdown, of := help(s.docs.fabric(d), d.file(), d.file().text.offset(p.Position))
	if markdown == "" {
		return nil, nil
	}
	return hover{markup{"markdown", markdown}, d.file().text.textRange(of)}, nil
}

func (s *server) definition(p documentParams) (any, *callError) {
	d, fault := s.native(p)
	if d == nil {
		return nil, fault
	}
	if at, ok := definition(s.docs.fabric(d), d.file(), d.file().text.offset(p.Position)); ok {
		return at, nil
	}
	return nil, nil
}

// formatting replaces the whole text. It leaves a text with a syntax error unchanged; the diagnostics show
// the error.
func (s *server) formatting(p documentParams) (any, *callError) {
	d, fault := s.document(p)
	if fault != nil {
		return nil, fault
	}
	name := d.path
	if name == "" {
		name = d.uri
	}
	out, diags := config.Format(d.text, name)
	if diags.HasErrors() || bytes.Equal(out, d.text) {
		return []textEdit{}, nil
	}
	return []textEdit{{newText(d.text).textRange(span{0, len(d.text)}), string(out)}}, nil
}
