package host

import "context"

// Inquire runs an allow-listed program from the system's folders, with a minimal environment.
func (kernel) Inquire(ctx context.Context, name string, args ...string) (Answer, error) {
	if err := Inquiry(name, args); err != nil {
		return Answer{}, err
	}
	return ask(ctx, nil, name, args...)
}
