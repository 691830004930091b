package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/config"
)

func validateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "validate [FABRIC]", Short: "Check the files without reaching any host", Args: cobra.MaximumNArgs(1),
		Example: "  fabricform validate examples/roce-pair.hcl",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.load(fabricArg(args))
			if err != nil {
				return err
			}
			a.out.Linef("✓ fabric %q is valid: %d hosts, %d links.", f.Name, len(f.Hosts), len(f.Links))
			return nil
		},
	}
	a.fabricFlags(c)
	return c
}

func fmtCommand(a *app) *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use: "fmt [FABRIC]", Short: "Rewrite the files in canonical form", Args: cobra.MaximumNArgs(1),
		Example: "  fabricform fmt\n  fabricform fmt -check examples/roce-pair.hcl",
		RunE: func(_ *cobra.Command, args []string) error {
			paths, err := config.Files(fabricArg(args))
			if err != nil {
				return err
			}
			changed := 0
			for _, path := range paths {
				differs, err := a.format(path, check)
				if err != nil {
					return err
				}
				if differs {
					changed++
					a.out.Linef("%s", path)
				}
			}
			if check && changed > 0 {
				return &exit{code: exitError, err: fmt.Errorf("%d of %d files are not in canonical form; run `fabricform fmt`", changed, len(paths))}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&check, "check", false, "change nothing; exit 1 if a file would change")
	return c
}

// format rewrites one file unless check is set, and says whether it differs.
func (a *app) format(path string, check bool) (differs bool, err error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("read fabric file: %w", err)
	}
	want, diags := config.Format(src, path)
	if diags.HasErrors() {
		if err := a.err.Diagnostics(map[string]*hcl.File{path: {Bytes: src}}, diags); err != nil {
			return false, err
		}
		return false, &exit{code: exitError}
	}
	if bytes.Equal(src, want) || check {
		return !bytes.Equal(src, want), nil
	}
	return true, replaceFile(path, want)
}

// replaceFile writes beside the file and renames, so that a full disk cannot cost the old text.
func replaceFile(path string, text []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("write fabric file: %w", err)
	}
	tmp := path + ".fabricform-fmt"
	if err := os.WriteFile(tmp, text, info.Mode().Perm()); err != nil {
		_ = os.Remove(tmp) // the write's error is the one that matters
		return fmt.Errorf("write fabric file: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write fabric file: %w", err)
	}
	return nil
}
