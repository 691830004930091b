//go:build linux

package slurm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// munge makes and reads credentials, by munge's own programs.
type munge struct {
	socket string // of munged; "": the default
}

// timeToLive is how long a credential is valid, in seconds.
const timeToLive = 60

// root is the user as whom helpers run: only root can decode a credential for a helper, and only root's credentials come from one.
const root = 0

// encode returns a credential with a payload, which only that user can decode.
func (m munge) encode(ctx context.Context, payload string, decoder int) (string, error) {
	return pipe(ctx, payload, m.command("munge", "--restrict-uid="+strconv.Itoa(decoder), "--ttl="+strconv.Itoa(timeToLive))...)
}

// decode returns the payload of a credential that this user made. munged decodes a credential once.
func (m munge) decode(ctx context.Context, credential string, maker int) (string, error) {
	if !strings.HasPrefix(credential, "MUNGE:") || strings.Trim(credential, "\n") == "" {
		return "", errors.New("it is not a credential of munge")
	}
	out, err := pipe(ctx, credential, m.command("unmunge", "--numeric", "--keys=UID")...)
	if err != nil {
		return "", err
	}
	head, payload, found := strings.Cut(out, "\n\n")
	uid, is := strings.CutPrefix(head, "UID:")
	if !found || !is {
		return "", errors.New("unmunge: it named no user")
	}
	if by, err := strconv.Atoi(strings.TrimSpace(uid)); err != nil || by != maker {
		return "", fmt.Errorf("user %s made the credential, not user %d", strings.TrimSpace(uid), maker)
	}
	return payload, nil
}

func (m munge) command(argv ...string) []string {
	if m.socket != "" {
		argv = append(argv, "--socket="+m.socket)
	}
	return argv
}
