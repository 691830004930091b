package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fabricform/fabricform/agent/decode"
)

// Method is one remote call: its name on the wire, and the types of its request and its answer. Each call is declared
// once, as a variable of this type.
type Method[P, R any] string

// Busy is the prefix of methods that keep a host's processors busy: perftest and NCCL's proxy threads poll without a
// pause, and Soft-RoCE runs in the kernel's softirqs, which take precedence over processes. Heartbeats may be late
// during such a call.
const Busy = "busy."

// Caller calls hosts by their names.
type Caller interface {
	// Call calls a method on a host, and decodes the answer into result, which may be nil.
	Call(ctx context.Context, host, method string, params, result any) error
}

// Call calls the method on a host.
func (m Method[P, R]) Call(ctx context.Context, c Caller, host string, params P) (R, error) {
	var r R
	err := c.Call(ctx, host, string(m), params, &r)
	return r, err
}

// Ask calls the method on a host and returns its answer as text, for Decode. The text takes about a third of the memory.
func (m Method[P, R]) Ask(ctx context.Context, c Caller, host string, params P) (json.RawMessage, error) {
	var answer json.RawMessage
	err := c.Call(ctx, host, string(m), params, &answer)
	return answer, err
}

// Decode decodes an answer of Ask.
func (m Method[P, R]) Decode(answer json.RawMessage) (R, error) {
	var r R
	err := decodeAnswer(string(m), answer, &r)
	return r, err
}

func decodeAnswer(method string, answer json.RawMessage, result any) error {
	if err := decode.Into(answer, result); err != nil {
		return fmt.Errorf("decode answer to %s: %w", method, err)
	}
	return nil
}

// Handler answers one request. It must stop when ctx is done, which is when the stream ends.
type Handler func(ctx context.Context, params json.RawMessage) (any, error)

// Served is a method with its handler.
type Served struct {
	method string
	answer Handler
}

// Serve returns the method with do as its handler.
func (m Method[P, R]) Serve(do func(context.Context, P) (R, error)) Served {
	return Served{string(m), func(ctx context.Context, raw json.RawMessage) (any, error) {
		var p P
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, fmt.Errorf("decode request for %s: %w", m, err)
		}
		return do(ctx, p)
	}}
}

// Table has a helper's handlers, by the names of their methods.
type Table map[string]Handler

// NewTable makes a table. Two methods with one name are an error.
func NewTable(all ...Served) (Table, error) {
	t := Table{}
	for _, s := range all {
		if _, twice := t[s.method]; twice {
			return nil, fmt.Errorf("two methods have the name %q", s.method)
		}
		t[s.method] = s.answer
	}
	return t, nil
}
