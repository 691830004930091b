package view

// Build is what a program says about its own build.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	ID      string `json:"build"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Go      string `json:"go"`
}

// BuildJSON prints a build as JSON.
func (p *Printer) BuildJSON(b Build) error { return p.printIndented(b) }

// Build prints a build as one line.
func (p *Printer) Build(b Build) {
	commit := ""
	if b.Commit != "" {
		commit = "commit " + b.Commit[:min(12, len(b.Commit))] + ", "
	}
	p.Linef("fabricform %s (%sbuild %s, %s/%s, %s)", b.Version, commit, b.ID, b.OS, b.Arch, b.Go)
}
