// Package lsp is the language server: it reports problems in a fabric's files to editors, and offers
// completion, hover texts, definitions and formatting. It speaks the Language Server Protocol over any
// stream. It takes the language from package config, and contacts no host.
package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fabricform/fabricform/config"
)

// pause is the time without typing after which the files are checked.
const pause = 150 * time.Millisecond

// server is the state of one conversation. One goroutine owns it, one reads messages, and one checks files.
type server struct {
	options config.Options
	out     *frameWriter

	initialized, stopped bool
	snippets             bool
	docs                 documents
	checks               checks
}

// Serve serves one editor until the editor exits or ctx ends. It uses only Env and Version of the options.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o config.Options) error {
	s := newServer(out, o)
	frames, ended := make(chan []byte), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		r := bufio.NewReader(in)
		for {
			body, err := readFrame(r)
			if err != nil {
				ended <- err
				return
			}
			select {
			case frames <- body:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				err = errors.New("the editor closed the connection without sending exit")
			}
			return err
		case body := <-frames:
			exit, err := s.receive(body)
			if exit || err != nil {
				return err
			}
		case <-s.checks.timer.C:
			s.check()
		case found := <-s.checks.done:
			if err := s.publish(found); err != nil {
				return err
			}
		}
	}
}

func newServer(out io.Writer, o config.Options) *server {
	return &server{options: o, out: &frameWriter{w: out}, checks: newChecks(),
		docs: documents{open: map[string]*document{}, disk: map[string]saved{}, alone: map[string]bool{}, hosts: map[string]instances{}}}
}

// receive handles one message. exit is true after the last message.
func (s *server) receive(body []byte) (exit bool, err error) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return false, s.out.write(message{JSONRPC: "2.0", ID: json.RawMessage("null"), Error: &callError{codeParse, err.Error()}})
	}
	if m.Method == "exit" {
		if !s.stopped {
			return true, errors.New("the editor sent exit without shutdown")
		}
		return true, nil
	}
	if m.Method == "" {
		return false, nil // a response, which this server does not expect because it sends no requests
	}
	result, fault := s.call(m)
	if m.ID == nil {
		return false, nil
	}
	answer := message{JSONRPC: "2.0", ID: m.ID, Error: fault}
	if fault == nil {
		if answer.Result, err = json.Marshal(result); err != nil {
			return false, fmt.Errorf("encode the answer to %s: %w", m.Method, err)
		}
	}
	return false, s.out.write(answer)
}

// call executes a message, if the protocol allows it in the current state of the conversation.
func (s *server) call(m message) (any, *callError) {
	switch {
	case s.stopped:
		return nil, &callError{codeInvalidRequest, "the server has shut down"}
	case m.Method == "initialize" && s.initialized:
		return nil, &callError{codeInvalidRequest, "initialize was called before"}
	case m.Method == "initialize":
		return s.initialize(m.Params)
	case !s.initialized:
		return nil, &callError{codeNotInitialized, "call initialize first"}
	case m.Method == "shutdown":
		s.stopped = true
		return nil, nil
	}
	handle, known := handlers[m.Method]
	if !known {
		return nil, &callError{codeNoMethod, "unknown method " + m.Method}
	}
	var p documentParams
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return nil, &callError{codeInvalidParams, err.Error()}
	}
	return handle(s, p)
}

func (s *server) initialize(params json.RawMessage) (any, *callError) {
	var p initializeParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, &callError{codeInvalidParams, err.Error()}
	}
	s.initialized = true
	s.snippets = p.Capabilities.TextDocument.Completion.CompletionItem.SnippetSupport
	type object = map[string]any
	return object{
		"serverInfo": object{"name": "fabricform", "version": s.options.Version},
		"capabilities": object{
			"positionEncoding":           "utf-16",
			"textDocumentSync":           object{"openClose": true, "change": 1, "save": true},
			"completionProvider":         object{"triggerCharacters": []string{".", `"`}},
			"hoverProvider":              true,
			"definitionProvider":         true,
			"documentFormattingProvider": true,
			"signatureHelpProvider":      object{"triggerCharacters": []string{"(", ","}},
			"documentSymbolProvider":     true,
			"referencesProvider":         true,
			"renameProvider":             object{"prepareProvider": true},
			"codeActionProvider":         object{"codeActionKinds": []string{kindQuickFix}},
		},
	}, nil
}

// checks holds the directories to check, the running check and the published problems.
type checks struct {
	timer *time.Timer
	done  chan []seen
	busy  bool
	due   map[string]bool // directories
	found map[string]seen
	told  map[string]string // published problems by URI, as sent
}

func newChecks() checks {
	t := time.NewTimer(pause)
	t.Stop()
	return checks{timer: t, done: make(chan []seen, 1), due: map[string]bool{}, found: map[string]seen{}, told: map[string]string{}}
}

// noteChanged records that a document has changed.
func (s *server) noteChanged(d *document) {
	if d.isFabric() {
		s.checks.due[filepath.Dir(d.path)] = true
		s.checks.timer.Reset(pause)
	}
}

// check checks all directories that are due, in the background, because a large fabric takes seconds.
func (s *server) check() {
	if s.checks.busy {
		return // publish starts the next check
	}
	var jobs []job
	for dir := range s.checks.due {
		if j, open := s.docs.job(dir); open {
			jobs = append(jobs, j)
		} else {
			delete(s.checks.found, dir)
			delete(s.docs.alone, dir)
		}
	}
	clear(s.checks.due)
	s.checks.busy = true
	go func() {
		var out []seen
		for _, j := range jobs {
			out = append(out, look(j, s.options))
		}
		s.checks.done <- out
	}()
}

// publish sends the problems that differ from those already sent. It skips a text that has changed since the
// check, because the next check follows soon.
func (s *server) publish(found []seen) error {
	s.checks.busy = false
	for _, f := range found {
		if !s.checks.due[f.dir] {
			s.checks.found[f.dir] = f
			s.docs.alone[f.dir] = f.alone
			maps.Copy(s.docs.hosts, f.hosts)
		}
	}
	if len(s.checks.due) > 0 {
		s.checks.timer.Reset(pause)
	}
	now := map[string]publishParams{}
	for uri := range s.checks.told {
		now[uri] = publishParams{URI: uri, Diagnostics: []diagnostic{}}
	}
	for _, f := range s.checks.found {
		for path, problems := range f.problems {
			p := publishParams{URI: pathURI(path), Diagnostics: problems}
			if d := s.docs.byPath(path); d != nil {
				p.URI, p.Version = d.uri, &d.version
			}
			now[p.URI] = p
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(now)) {
		if err := s.tell(now[uri]); err != nil {
			return err
		}
	}
	return nil
}

// tell sends the problems of a file, unless the editor already has them. An empty list is sent once.
func (s *server) tell(p publishParams) error {
	params, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode diagnostics: %w", err)
	}
	if s.checks.told[p.URI] == string(params) {
		return nil
	}
	s.checks.told[p.URI] = string(params)
	return s.out.write(message{JSONRPC: "2.0", Method: "textDocument/publishDiagnostics", Params: params})
}
