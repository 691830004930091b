package transport

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// versionID is what a helper's version may be: it becomes part of a file name and of the one shell
// line below.
var versionID = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// missing opens the line by which the start script says that this build is not there.
const missing = "fabricform-missing"

// exitMissing is the start script's exit code for that.
const exitMissing = 97

// script is the one shell line of the project: fixed text and a checked hexadecimal version. It
// runs under sh whatever the login shell is; it holds no single quote, no exclamation mark and no
// line break, which csh and fish would read otherwise. It takes a helper only from a directory and
// a file that are ours and that nobody else can write, because sudo may run it as root.
// SSH_CONNECTION goes along as an argument: sudo drops it from the environment.
func script(version string, sudo bool) string {
	run := `exec "$f" agent --ssh-connection="$SSH_CONNECTION"`
	if sudo {
		run = `exec sudo -n -- "$f" agent --ssh-connection="$SSH_CONNECTION"`
	}
	return `sh -c 'u=$(id -u); for d in "$HOME/.cache/fabricform" "/var/tmp/fabricform-$u" "/run/user/$u/fabricform"; do f="$d/fabricform-` + version +
		`"; if [ -x "$f" ] && [ -O "$f" ] && [ -O "$d" ]; then case "$(ls -ldn "$d" "$f" | cut -c1-10 | tr -d "\n")" in drwx-------rwx------) ` + run +
		`;; esac; fi; done; printf "` + missing + ` %s %s %s %s\n" "$(uname -s)" "$(uname -m)" "$u" "$HOME"; exit 97'`
}

// absence is what the script says of a host without the helper.
type absence struct {
	system, machine, uid, home string
}

// parseMissing finds the script's line in an output that login noise may precede. The values are
// the host's words: they are checked before they are used.
func parseMissing(out string) (absence, error) {
	i := strings.LastIndex(out, missing+" ")
	if i < 0 {
		return absence{}, errors.New("the host's answer was not understood: " + neutral(out))
	}
	line, _, _ := strings.Cut(out[i+len(missing)+1:], "\n")
	f := strings.SplitN(line, " ", 4)
	if len(f) != 4 {
		return absence{}, errors.New("the host's answer was not understood: " + neutral(line))
	}
	a := absence{system: f[0], machine: f[1], uid: f[2], home: f[3]}
	if !regexp.MustCompile(`^[0-9]{1,10}$`).MatchString(a.uid) {
		return a, fmt.Errorf("the host's user id %q is no number", neutral(a.uid))
	}
	if !safePath.MatchString(a.home) {
		return a, fmt.Errorf("the home directory %q is no plain absolute path", neutral(a.home))
	}
	return a, nil
}

// safePath is a path that means the same to a shell, to sftp and to a person.
var safePath = regexp.MustCompile(`^/[A-Za-z0-9._@+/-]*$`)

// directories are where the helper may live, in the order in which the script looks.
func (a absence) directories() []string {
	return []string{strings.TrimSuffix(a.home, "/") + "/.cache/fabricform", "/var/tmp/fabricform-" + a.uid, "/run/user/" + a.uid + "/fabricform"}
}

// goarch turns uname -m into Go's name.
func (a absence) goarch() (string, error) {
	if a.system != "Linux" {
		return "", fmt.Errorf("the host runs %s; fabrics are made of Linux hosts", neutral(a.system))
	}
	switch a.machine {
	case "x86_64":
		return "amd64", nil
	case "aarch64":
		return "arm64", nil
	}
	return "", fmt.Errorf("the host is a %s machine; there are helpers for x86_64 and aarch64", neutral(a.machine))
}

// start runs the script, brings the helper if it says so, and runs it again.
func (d *Dialer) start(ctx context.Context, c *connection, t Target) (*Session, error) {
	version := d.Helper.Version()
	if !versionID.MatchString(version) {
		return nil, fmt.Errorf("helper version %q is not hexadecimal", version)
	}
	sudo := c.user != "root"
	if t.Sudo != nil {
		sudo = *t.Sudo
	}
	command := script(version, sudo)
	s, err := c.run(ctx, t.Name, command)
	if err != nil {
		return nil, err
	}
	where, err := s.greeted()
	if err != nil {
		return nil, err
	}
	if where == nil {
		return s, nil
	}
	if err := d.install(ctx, c, t, *where, version); err != nil {
		return nil, err
	}
	if s, err = c.run(ctx, t.Name, command); err != nil {
		return nil, err
	}
	if where, err = s.greeted(); err == nil && where != nil {
		err = &Error{Host: t.Name, Op: "start helper", Err: errors.New("it was put there, but the host does not find it"), Hint: "is the home directory shared or wiped?"}
	}
	return s, err
}
