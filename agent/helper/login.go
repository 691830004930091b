//go:build linux

package helper

import (
	"context"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/probe"
)

// tryLogins logs in to other hosts as a user of this host.
func (s *server) tryLogins(ctx context.Context, p probe.LoginSpec) ([]probe.LoginResult, error) {
	all := func(r probe.LoginResult) []probe.LoginResult {
		out := make([]probe.LoginResult, len(p.Peers))
		for i := range out {
			out[i] = r
		}
		return out
	}
	a, err := host.LookUp(ctx, s.host, p.User)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return all(probe.LoginResult{State: probe.LoginUserMissing}), nil
	}
	switch key, err := s.host.LoginFile(ctx, *a, p.Key); {
	case err != nil:
		return all(probe.LoginResult{State: probe.LoginKeyMissing, Said: probe.Excerpt(err.Error())}), nil
	case key == nil:
		return all(probe.LoginResult{State: probe.LoginKeyMissing}), nil
	}
	return probe.Logins(ctx, *userOf(a), p), nil
}

// inspectLogin reads what prevents a user's logins to this host.
func (s *server) inspectLogin(ctx context.Context, p probe.LoginInspection) ([]probe.LoginBarrier, error) {
	a, err := host.LookUp(ctx, s.host, p.User)
	if err != nil {
		return nil, err
	}
	return probe.Barriers(ctx, p.User, userOf(a), p.From), nil
}

func userOf(a *host.Account) *probe.LoginUser {
	if a == nil {
		return nil
	}
	return &probe.LoginUser{Name: a.Name, Shell: a.Shell, UID: a.UID}
}
