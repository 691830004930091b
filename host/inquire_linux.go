package host

import "context"

// Inquire runs it below the system's folders, in a small environment of our own.
func (kernel) Inquire(ctx context.Context, name string, args ...string) (Answer, error) {
	if err := Inquiry(name, args); err != nil {
		return Answer{}, err
	}
	return ask(ctx, nil, name, args...)
}
