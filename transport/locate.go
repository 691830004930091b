package transport

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// versionID matches valid versions of a helper. The version becomes part of a file name and of the shell
// line below.
var versionID = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// missing begins the line by which the start script reports that this build is not installed.
const missing = "fabricform-missing"

// exitMissing is the exit status of the start script in that case.
const exitMissing = 97

// script returns the only shell line of the project: fixed text and a checked hexadecimal version. It runs
// under sh, whatever the login shell is. It contains no single quote, exclamation mark or line break,
// because csh and fish read these differently. It starts a helper only if the directory and the file
// belong to the user and nobody else can write to them, because sudo may run the helper as root.
// SSH_CONNECTION is passed as an argument, because sudo removes it from the environment.
func script(version string, sudo bool) string {
	run := `exec "$f" agent --ssh-connection="$SSH_CONNECTION"`
	if sudo {
		run = `exec sudo -n -- "$f" agent --ssh-connection="$SSH_CONNECTION"`
	}
	return `sh -c 'u=$(id -u); for d in "$HOME/.cache/fabricform" "/var/tmp/fabricform-$u" "/run/user/$u/fabricform"; do f="$d/fabricform-` + version +
		`"; if [ -x "$f" ] && [ -O "$f" ] && [ -O "$d" ]; then case "$(ls -ldn "$d" "$f" | cut -c1-10 | tr -d "\n")" in drwx-------rwx------) ` + run +
		`;; esac; fi; done; printf "` + missing + ` %s %s %s %s\n" "$(uname -s)" "$(uname -m)" "$u" "$HOME"; exit 97'`
}

// absence is what the script reports about a host without the helper.
type absence struct {
	system, machine, uid, home string
}

// parseMissing finds the script's line in the output, which output of the login shell may precede. The values
// come from the host, so they are checked before use.
func parseMissing(out string) (absence, error) {
	i := strings.LastIndex(out, missing+" ")
	if i < 0 {
		return absence{}, errors.New("unexpected answer from the host: " + neutral(out))
	}
	line, _, _ := strings.Cut(out[i+len(missing)+1:], "\n")
	f := strings.SplitN(line, " ", 4)
	if len(f) != 4 {
		return absence{}, errors.New("unexpected answer from the host: " + neutral(line))
	}
	a := absence{system: f[0], machine: f[1], uid: f[2], home: f[3]}
	if !regexp.MustCompile(`^[0-9]{1,10}$`).MatchString(a.uid) {
		return a, fmt.Errorf("the host's user ID %q is not a number", neutral(a.uid))
	}
	if !safePath.MatchString(a.home) {
		return a, fmt.Errorf("the home directory %q is not a plain absolute path", neutral(a.home))
	}
	return a, nil
}

// safePath matches paths that a shell and SFTP read literally.
var safePath = regexp.MustCompile(`^/[A-Za-z0-9._@+/-]*$`)

// directories returns the directories for the helper, in the order in which the script searches them.
func (a absence) directories() []string {
	return []string{strings.TrimSuffix(a.home, "/") + "/.cache/fabricform", "/var/tmp/fabricform-" + a.uid, "/run/user/" + a.uid + "/fabricform"}
}

// goarch returns Go's name for the architecture that uname -m reports.
func (a absence) goarch() (string, error) {
	if a.system != "Linux" {
		return "", fmt.Errorf("the host runs %s, but only Linux hosts are supported", neutral(a.system))
	}
	switch a.machine {
	case "x86_64":
		return "amd64", nil
	case "aarch64":
		return "arm64", nil
	}
	return "", fmt.Errorf("the host is a %s machine, but there are only helpers for x86_64 and aarch64", neutral(a.machine))
}

// start runs the script. If the script reports that the helper is missing, start uploads it and runs the
// script again.
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
		err = &Error{Host: t.Name, Op: "start helper", Err: errors.New("the helper was uploaded, but the host does not find it"), Hint: "check whether the home directory is shared or cleaned automatically"}
	}
	return s, err
}
