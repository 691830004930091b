package lsp

import "encoding/json"

// The types of the protocol (3.17) that this server uses.

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *callError      `json:"error,omitempty"`
}

type callError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeNotInitialized = -32002
	codeRequestFailed  = -32803
)

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"` // of UTF-16
}

type textRange struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

type location struct {
	URI   string    `json:"uri"`
	Range textRange `json:"range"`
}

type textEdit struct {
	Range   textRange `json:"range"`
	NewText string    `json:"newText"`
}

type diagnostic struct {
	Range    textRange `json:"range"`
	Severity int       `json:"severity"`
	Source   string    `json:"source"`
	Message  string    `json:"message"`

	fix *fix // nil: none is known
}

const (
	severityError   = 1
	severityWarning = 2
)

type codeAction struct {
	Title       string        `json:"title"`
	Kind        string        `json:"kind"`
	Diagnostics []diagnostic  `json:"diagnostics"`
	IsPreferred bool          `json:"isPreferred"`
	Edit        workspaceEdit `json:"edit"`
}

const kindQuickFix = "quickfix"

type workspaceEdit struct {
	Changes map[string][]textEdit `json:"changes"` // by URI
}

type renameable struct {
	Range       textRange `json:"range"`
	Placeholder string    `json:"placeholder"`
}

type symbol struct {
	Name           string    `json:"name"`
	Detail         string    `json:"detail,omitempty"`
	Kind           int       `json:"kind"`
	Range          textRange `json:"range"`
	SelectionRange textRange `json:"selectionRange"`
	Children       []symbol  `json:"children,omitempty"`
}

// Kinds of symbols, as editors draw them.
const (
	symbolNamespace = 3
	symbolClass     = 5
	symbolProperty  = 7
	symbolInterface = 11
	symbolVariable  = 13
	symbolObject    = 19
	symbolEvent     = 24
)

type publishParams struct {
	URI         string       `json:"uri"`
	Version     *int         `json:"version,omitempty"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type markup struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

type hover struct {
	Contents markup    `json:"contents"`
	Range    textRange `json:"range"`
}

type signatures struct {
	Signatures      []signature `json:"signatures"`
	ActiveParameter int         `json:"activeParameter"`
}

type signature struct {
	Label         string      `json:"label"`
	Documentation markup      `json:"documentation"`
	Parameters    []parameter `json:"parameters"`
}

type parameter struct {
	Label string `json:"label"` // its part of the signature's label
}

type completionList struct {
	IsIncomplete bool             `json:"isIncomplete"`
	Items        []completionItem `json:"items"`
}

type completionItem struct {
	Label            string   `json:"label"`
	Kind             int      `json:"kind"`
	Detail           string   `json:"detail,omitempty"`
	Documentation    *markup  `json:"documentation,omitempty"`
	SortText         string   `json:"sortText"`
	FilterText       string   `json:"filterText,omitempty"`
	InsertTextFormat int      `json:"insertTextFormat,omitempty"`
	TextEdit         textEdit `json:"textEdit"`
}

// Kinds of completion items, as editors draw them.
const (
	itemFunction  = 3
	itemField     = 5
	itemVariable  = 6
	itemModule    = 9
	itemProperty  = 10
	itemEnum      = 20
	itemStruct    = 22
	formatSnippet = 2
)

type initializeParams struct {
	Capabilities struct {
		TextDocument struct {
			Completion struct {
				CompletionItem struct {
					SnippetSupport bool `json:"snippetSupport"`
				} `json:"completionItem"`
			} `json:"completion"`
		} `json:"textDocument"`
	} `json:"capabilities"`
}

type documentParams struct {
	TextDocument struct {
		URI     string `json:"uri"`
		Version int    `json:"version"`
		Text    string `json:"text"` // of didOpen
	} `json:"textDocument"`
	Position position  `json:"position"`
	Range    textRange `json:"range"`
	Context  struct {
		Only               []string `json:"only"` // kinds of code actions
		IncludeDeclaration bool     `json:"includeDeclaration"`
	} `json:"context"`
	NewName        string `json:"newName"`
	ContentChanges []struct {
		Text string `json:"text"` // the whole document
	} `json:"contentChanges"`
}
