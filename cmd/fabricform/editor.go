package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/lsp"
)

func schemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON schema of *.hcl.json files", Args: cobra.NoArgs,
		Example: "  fabricform schema > fabric.schema.json",
		RunE: func(*cobra.Command, []string) error {
			text, err := config.Schema()
			if err != nil {
				return err
			}
			return a.out.Raw(text)
		},
	}
}

func lspCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "lsp", Short: "Serve an editor, on stdin and stdout", Args: cobra.NoArgs,
		Long: "Speaks the Language Server Protocol: what is wrong with the fabric's files while they are typed, what may be written, what a name means\n" +
			"and where it is declared, and the canonical form. docs/editors.md says how editors start it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return lsp.Serve(cmd.Context(), os.Stdin, os.Stdout, a.sources())
		},
	}
	c.Flags().Bool("stdio", true, "speak on stdin and stdout: the only way, which some editors name")
	return c
}
