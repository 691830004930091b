package validators

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fabricform/fabricform/agent"
)

// fake is hosts in memory: it answers calls by their names, and encodes and decodes as the wire does.
type fake map[string]func(ctx context.Context, host string, params []byte) (any, error)

// on has do answer a method, in the place of what did before.
func on[P, R any](f fake, m agent.Method[P, R], do func(ctx context.Context, host string, params P) (R, error)) {
	f[string(m)] = func(ctx context.Context, host string, raw []byte) (any, error) {
		var p P
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, err
		}
		return do(ctx, host, p)
	}
}

// Call implements agent.Caller.
func (f fake) Call(ctx context.Context, host, method string, params, result any) error {
	answer, ok := f[method]
	if !ok {
		return fmt.Errorf("no fake of %s on %s", method, host)
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	got, err := answer(ctx, host, raw)
	if err != nil {
		return err
	}
	if raw, err = json.Marshal(got); err != nil {
		return err
	}
	return json.Unmarshal(raw, result)
}
