package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
)

// planMagic begins a saved plan, so that apply knows it from a fabric's file.
const planMagic = "fabricform plan 1\n"

// planFile is a saved plan: the fabric as it was read, and the difference as it was found. Applying
// it compares the live difference with this one, and makes nothing else.
type planFile struct {
	ID      string    `json:"id"`
	Build   string    `json:"build"`
	Created time.Time `json:"created"`
	Source  string    `json:"source"`
	Destroy bool      `json:"destroy,omitempty"`
	// Management is -allow=management.
	Management bool            `json:"management,omitempty"`
	Chosen     map[string]bool `json:"chosen,omitempty"`
	Fabric     *fabric.Fabric  `json:"fabric"`
	Plan       *planner.Plan   `json:"plan"`
}

func newPlanID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}

// save writes the plan whole or not at all. It holds addresses of hosts: only its owner may read it.
func (p *planFile) save(path string) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("save plan: %w", err)
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, append([]byte(planMagic), raw...), 0o600); err != nil {
		return errors.Join(fmt.Errorf("save plan: %w", err), os.Remove(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("save plan: %w", err)
	}
	return nil
}

// maxPlanFile bounds a saved plan: 10,000 hosts are about 100 MiB.
const maxPlanFile = 512 << 20

// readPlanFile reads a saved plan; nil where the file is something else, such as a fabric.
func readPlanFile(path, build string) (*planFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil // whoever reads the fabric says so
	}
	defer f.Close()
	head := make([]byte, len(planMagic))
	if _, err := io.ReadFull(f, head); err != nil || !bytes.HasPrefix(head, []byte(planMagic[:len("fabricform plan ")])) {
		return nil, nil
	}
	if string(head) != planMagic {
		return nil, fmt.Errorf("%s: a saved plan of another version of fabricform; make it anew", path)
	}
	var p planFile
	if err := json.NewDecoder(io.LimitReader(f, maxPlanFile)).Decode(&p); err != nil {
		return nil, fmt.Errorf("%s: the saved plan is broken: %w; make it anew", path, err)
	}
	if p.Fabric == nil || p.Plan == nil || p.ID == "" {
		return nil, fmt.Errorf("%s: the saved plan is not whole; make it anew", path)
	}
	if p.Build != build {
		return nil, fmt.Errorf("%s: the plan was saved by another build (%s) of fabricform; make it anew with this one (%s)", path, p.Build, build)
	}
	return &p, nil
}
