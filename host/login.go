package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Account is a user of the machine, as the passwd database has it (passwd(5)).
type Account struct {
	Name string `json:"name"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Home string `json:"home"`
	// Groups are the user's group IDs (getgrouplist(3)), GID among them: a home can be one that only a group may enter.
	Groups []int  `json:"groups,omitempty"`
	Shell  string `json:"shell,omitempty"` // the login shell; "" is /bin/sh
}

// LookUp returns a user's entry of the passwd database, which may be on a directory server, and the user's groups; nil if there is
// no such user.
func LookUp(ctx context.Context, r Reader, user string) (*Account, error) {
	got, err := r.Inquire(ctx, "getent", "passwd", user)
	if err != nil {
		return nil, fmt.Errorf("look up user %s: %w", user, err)
	}
	line, _, _ := strings.Cut(got.Stdout, "\n")
	f := strings.Split(line, ":")
	switch {
	case got.Exit == 2: // getent(1): not found
		return nil, nil
	case got.Exit != 0:
		return nil, fmt.Errorf("look up user %s: getent exited with status %d: %.200q", user, got.Exit, got.Stderr)
	case len(f) < 7:
		return nil, fmt.Errorf("look up user %s: unexpected answer %.200q of getent", user, line)
	}
	ids, err := numbers(f[2:4])
	if err != nil || !path.IsAbs(f[5]) || f[0] != user {
		return nil, fmt.Errorf("look up user %s: unexpected answer %q of getent", user, line)
	}
	a := &Account{Name: user, UID: ids[0], GID: ids[1], Home: f[5], Shell: f[6]}
	if got, err = r.Inquire(ctx, "id", "-G", user); err == nil && got.Exit != 0 {
		err = fmt.Errorf("id exited with status %d: %.200q", got.Exit, got.Stderr)
	}
	if err == nil {
		a.Groups, err = numbers(strings.Fields(got.Stdout))
	}
	if err != nil {
		return nil, fmt.Errorf("look up the groups of user %s: %w", user, err)
	}
	return a, nil
}

func numbers(texts []string) (out []int, err error) {
	for _, text := range texts {
		n, bad := strconv.ParseUint(text, 10, 32)
		out, err = append(out, int(n)), errors.Join(err, bad)
	}
	return out, err
}

// LoginFile is a file of a user's ~/.ssh.
type LoginFile struct {
	Perm fs.FileMode
	Text []byte // of a regular file
}

// ErrChanged says that a file is not as it was read. Callers read it again.
var ErrChanged = errors.New("the file changed meanwhile")

// AuthorizedKeys is the only file of a user's ~/.ssh, besides our own ones, that may be changed.
const AuthorizedKeys = "authorized_keys"

// LoginName returns an error unless a file of that name in a user's ~/.ssh may be read and changed: authorized_keys, or
// one of our own.
func LoginName(name string) error {
	if name == AuthorizedKeys || strings.HasPrefix(name, "fabricform_") && !strings.ContainsAny(name, "/\x00") {
		return nil
	}
	return fmt.Errorf("%q is neither authorized_keys nor one of fabricform's own files in ~/.ssh", name)
}
