package agent

import (
	"context"
	"encoding/json"
	"fmt"
)

// Method is one remote call: its name on the wire, and the types of its request and of its answer on both
// sides. A call is declared once, as a variable of this type.
type Method[P, R any] string

// Busy begins the names of methods that keep a host's processors busy while they run. perftest polls
// without a pause, as RDMA programs and NCCL's proxies do, and Soft-RoCE works in the kernel's softirqs,
// which come before any process. Heartbeats may be late then.
const Busy = "busy."

// Caller reaches hosts by their names.
type Caller interface {
	// Call asks for method on host and decodes the answer into result, which may be nil.
	Call(ctx context.Context, host, method string, params, result any) error
}

// Call asks a host.
func (m Method[P, R]) Call(ctx context.Context, c Caller, host string, params P) (R, error) {
	var r R
	err := c.Call(ctx, host, string(m), params, &r)
	return r, err
}

// Handler answers one request. It must honour ctx, which ends with the stream.
type Handler func(ctx context.Context, params json.RawMessage) (any, error)

// Served is a method together with what answers it.
type Served struct {
	method string
	answer Handler
}

// Serve is the helper's side of the method: do answers it.
func (m Method[P, R]) Serve(do func(context.Context, P) (R, error)) Served {
	return Served{string(m), func(ctx context.Context, raw json.RawMessage) (any, error) {
		var p P
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, fmt.Errorf("decode request for %s: %w", m, err)
		}
		return do(ctx, p)
	}}
}

// Table is all that a helper answers, by the names of methods.
type Table map[string]Handler

// NewTable makes a table. Two methods of one name are an error.
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
