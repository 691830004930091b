package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/view"
)

func validateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "validate [FABRIC]", Short: "Check the files without reaching any host", Args: cobra.MaximumNArgs(1),
		Example: "  fabricform validate examples/roce-pair.hcl\n  fabricform validate -json | jq '.diagnostics[].summary'",
		RunE: func(_ *cobra.Command, args []string) error {
			path := fabricArg(args)
			o := a.sources()
			o.Validating = true
			f, files, diags := config.Load(path, o)
			if a.asJSON {
				err := a.out.DiagnosticsJSON(files, diags)
				if err == nil && diags.HasErrors() {
					err = exitWith(exitError)
				}
				return err
			}
			if err := a.problems(files, diags); err != nil {
				return err
			}
			a.out.Valid(f)
			return nil
		},
	}
	a.fabricFlags(c)
	a.jsonFlag(c, "print the problems as JSON, with their positions")
	return c
}

func outputCommand(a *app) *cobra.Command {
	var raw bool
	c := &cobra.Command{
		Use: "output [FABRIC] [NAME]", Short: "Print the fabric's outputs, without reaching any host", Args: cobra.MaximumNArgs(2),
		Long: "Prints all outputs, or the one called NAME. " +
			"A single argument is taken as FABRIC if that path exists, otherwise as NAME.\nOnly -json and -raw print sensitive values.",
		Example: "  fabricform output\n" +
			"  fabricform output -json examples/dual-stack.hcl addresses\n" +
			"  fabricform output -raw examples/dual-stack.hcl addresses",
		RunE: func(_ *cobra.Command, args []string) error {
			path, name := ".", ""
			for _, arg := range args {
				if _, err := os.Stat(arg); err == nil && path == "." {
					path = arg
				} else {
					name = arg
				}
			}
			f, err := a.load(path)
			if err != nil {
				return err
			}
			form := view.OutputText
			if a.asJSON {
				form = view.OutputJSON
			} else if raw {
				form = view.OutputRaw
			}
			return a.out.Outputs(f.Outputs, name, form)
		},
	}
	a.fabricFlags(c)
	a.jsonFlag(c, "print as JSON, including sensitive values")
	c.Flags().BoolVar(&raw, "raw", false, "print the output NAME even if it is sensitive, a string without quotes")
	c.MarkFlagsMutuallyExclusive("json", "raw")
	return c
}

func fmtCommand(a *app) *cobra.Command {
	var check, diff, below bool
	c := &cobra.Command{
		Use: "fmt [FABRIC]", Short: "Rewrite the files in canonical form", Args: cobra.MaximumNArgs(1),
		Long: "Rewrites the files in canonical form and prints the names of those that changed. A file that is a link to a file outside of " +
			"FABRIC is not rewritten, unless FABRIC is that link. If FABRIC is -, fmt reads standard input and prints the canonical form.",
		Example: "  fabricform fmt\n  fabricform fmt -recursive fabrics/\n  fabricform fmt -check -diff examples/roce-pair.hcl\n" +
			"  fabricform fmt - < draft.hcl",
		RunE: func(cmd *cobra.Command, args []string) error {
			root := fabricArg(args)
			if root == "-" {
				defer endAtOnce(cmd.Context())()
				return a.formatInput(cmd.InOrStdin(), check, diff)
			}
			files := config.Files
			if below {
				files = config.FilesBelow
			}
			paths, err := files(root)
			if err != nil {
				return err
			}
			changed, broken, failed := 0, false, error(nil)
			for _, path := range paths {
				differs, err := a.format(root, path, !check, diff)
				var printed *exit
				if errors.As(err, &printed) {
					broken = true // its errors were printed; continue with the other files
					continue
				}
				failed = errors.Join(failed, err)
				if differs {
					changed++
					a.out.Linef("%s", path)
				}
			}
			if failed != nil {
				return failed
			}
			if broken {
				return exitWith(exitError)
			}
			if check && changed > 0 {
				by := fabric.Invocation{Path: root, Dir: a.dir}
				if below {
					by.Flags = []string{"-recursive"}
				}
				return &exit{code: exitError, err: fmt.Errorf("not in canonical form: %s; run %s", view.Count(changed, "file"), by.Hint("fmt"))}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&check, "check", false, "write no file; exit 1 if any file would change")
	c.Flags().BoolVar(&diff, "diff", false, "print the changes as a diff")
	c.Flags().BoolVar(&below, "recursive", false, "also rewrite the files in the directories below FABRIC, except hidden ones")
	return c
}

// formatInput prints the canonical form of standard input, or its difference.
func (a *app) formatInput(stdin io.Reader, check, diff bool) error {
	src, err := config.ReadInput(stdin)
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	want, err := a.canonical("standard input", src, diff)
	switch {
	case err != nil:
		return err
	case check && !bytes.Equal(src, want):
		return &exit{code: exitError, err: errors.New("standard input is not in canonical form")}
	case check || diff:
		return nil
	}
	return a.out.Raw(want)
}

// format reports whether a file differs from its canonical form. It writes that form and prints the
// difference if asked to. root is what the operator named: the file, or a directory that has it.
func (a *app) format(root, path string, write, diff bool) (differs bool, err error) {
	src, err := config.ReadFile(path)
	if err != nil {
		return false, err
	}
	want, err := a.canonical(path, src, diff)
	if err != nil || bytes.Equal(src, want) {
		return false, err
	}
	if write {
		err = a.inside(root, path)
	}
	if write && err == nil {
		err = rewrite(path, want)
	}
	return err == nil, err
}

// inside returns an error if a file of a directory is a link to a file outside of it: who formats a directory may not expect, or may not
// know, what else it leads to.
func (a *app) inside(root, path string) error {
	if root == path {
		return nil
	}
	in, err := resolved(root)
	if err != nil {
		return err
	}
	at, err := resolved(path)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(in, at); err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s is a link to %s, which is outside of %s, so that file was not rewritten: run %s to rewrite it",
			path, at, filepath.Clean(root), fabric.Invocation{Path: path, Dir: a.dir}.Hint("fmt"))
	}
	return nil
}

// canonical returns the canonical form of a file's text. It prints the file's problems, and the difference if asked to.
func (a *app) canonical(name string, src []byte, diff bool) ([]byte, error) {
	want, diags := config.Format(src, name)
	if diags.HasErrors() {
		return nil, a.problems(map[string]*hcl.File{name: {Bytes: src}}, diags)
	}
	if diff && !bytes.Equal(src, want) {
		for line := range strings.Lines(udiff.Unified(name, name, string(src), string(want))) {
			a.out.Linef("%s", strings.TrimSuffix(line, "\n"))
		}
	}
	return want, nil
}

// resolved is a path without links, from the root.
func resolved(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// rewrite replaces the file's text and keeps its mode. If the disk is full, the old text stays.
func rewrite(path string, text []byte) error {
	info, err := os.Stat(path)
	if err == nil {
		err = file.Output(path, text, info.Mode().Perm())
	}
	if err != nil {
		return fmt.Errorf("write fabric file: %w", err)
	}
	return nil
}
