package main

import (
	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/config"
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
