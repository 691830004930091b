package view

import (
	"slices"
	"sync"

	"github.com/fabricform/fabricform/planner"
)

// Warnings are faults of hosts that somebody should correct. They are printed when the command ends, each once with
// all its hosts: a fleet has the same startup files everywhere.
type Warnings struct {
	mu    sync.Mutex
	order []string
	hosts map[string][]string
}

// Add adds a warning of a host. It may be called from several goroutines.
func (w *Warnings) Add(host, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hosts == nil {
		w.hosts = map[string][]string{}
	}
	if w.hosts[message] == nil {
		w.order = append(w.order, message)
	}
	if !slices.Contains(w.hosts[message], host) {
		w.hosts[message] = append(w.hosts[message], host)
	}
}

// Warnings prints the warnings, in the order in which they came.
func (p *Printer) Warnings(w *Warnings) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, message := range w.order {
		p.Linef("warning: %s: %s", planner.Names(w.hosts[message]), message)
	}
}
