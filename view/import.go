package view

// Imported is what an import wrote.
type Imported struct {
	Files    []string `json:"files"`
	Hosts    int      `json:"hosts"`
	Links    int      `json:"links"`
	Networks int      `json:"networks"`
	// LeftOut says why blocks became comments.
	LeftOut []string `json:"left_out,omitempty"`
	// Before lists what a person must do on the hosts before the first apply.
	Before []string `json:"before_first_apply,omitempty"`
	// Failed says why hosts could not be read. Nothing is written then.
	Failed map[string]string `json:"failed,omitempty"`
}

// ImportJSON prints an import as JSON.
func (p *Printer) ImportJSON(i Imported) error {
	return p.printIndented(struct {
		Format int `json:"format"`
		Imported
	}{EventFormat, i})
}
