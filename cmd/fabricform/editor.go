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
		Use: "lsp", Short: "Run the language server on stdin and stdout", Args: cobra.NoArgs,
		Long: "Speaks the Language Server Protocol: diagnostics, completion, hover, go to definition and formatting for fabric files.\n" +
			"docs/editors.md explains how to set up editors.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return lsp.Serve(cmd.Context(), os.Stdin, os.Stdout, a.sources())
		},
	}
	c.Flags().Bool("stdio", true, "use stdin and stdout; the only transport, accepted because some editors pass it")
	return c
}
