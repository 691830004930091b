package transport

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// versionID matches valid versions of a helper. The version becomes part of a file name and of the shell
// line below.
var versionID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{8,64}$`) })

// missing begins the line by which the start script reports that this build is not installed.
const missing = "fabricform-missing"

// exitMissing is the exit status of the start script in that case.
const exitMissing = 97

// unsafe begins the lines that name what breaks the rule below.
const unsafe = "fabricform-unsafe"

// rule defines the shell function ours. It holds the one rule for the folder $1 and the program $2 in it: both are private
// to the login user, and every folder above belongs to root or that user and nobody else can rename what is in it. Otherwise
// another user could choose what runs as root. It enters the folder first, and examines everything relative to it, so that
// renaming a folder meanwhile has no effect. It lists what breaks the rule in $bad. A folder that ls does not list breaks it
// too. The path of ls is looked up before: PATH may name the current folder. ls prints the same ten characters of a mode
// everywhere; with an access list, those of the group bound what it grants. Each program that a shell starts costs a
// millisecond of each login, so $u comes from the kernel, where that has its files (proc_pid_status(5)).
const rule = `u=; [ -r /proc/self/status ] && while read -r m n u o; do case "$m" in (Uid:) break;; esac; done </proc/self/status; [ -n "$u" ] || u=$(id -u); ls=$(command -v ls); ours() { bad=; cd -P "$1" 2>/dev/null || return 1; f="./$2"; q=.; set -- .; if [ -e "$f" ]; then set -- . "$f"; fi; ` +
	`until [ "$q" -ef / ]; do q="$q/.."; set -- "$@" "$q"; [ -d "$q" ] || break; done; ` +
	`l=$(LC_ALL=C "$ls" -ldn "$@") || return 1; ` +
	`bad=$(printf "%s\n" "$l" | { k=$#; while read -r m n o r; do k=$((k-1)); r="${r%% -> *}"; case "$r" in (*" ."|*" $f") case "$o $m" in ("$u drwx------"*|"$u -rwx------"*) continue;; esac;; ` +
	`(*) case "$o $m" in ("0 d"????-??-*|"0 d"????????[tT]*|"$u d"????-??-*|"$u d"????????[tT]*) continue;; esac;; esac; ` +
	`printf "` + unsafe + ` %s %s %s %s\n" "$m" "$o" "${r##* }" "$PWD"; done; [ "$k" = 0 ]; }) && [ -z "$bad" ]; }; `

// script returns the shell line that starts the helper: fixed text and a checked hexadecimal version. It runs under sh, whatever the
// login shell is, and first says on both streams that it runs. It contains no single quote, exclamation mark or line break, because
// csh and fish read these differently. SSH_CONNECTION is passed as an argument, because sudo removes it from the environment. Root on
// the host may be unable to read a home on another machine; in that case, local folders come first. Otherwise the folder that anybody
// can make comes last. Where only the home has the program, the order does not matter. Until -O has shown that this folder is the
// login user's, nothing in it is looked at: its owner could let it lead to a file system that never answers. sudo gets the whole path:
// its rules may name the path, and nobody else can redirect it once the folder follows the rule.
func script(version string, sudo bool) string {
	program := "fabricform-" + version
	run := "exec ./" + program
	if sudo {
		run = `cd -P . && p=$(pwd -P) && exec sudo -n -- "$p/` + program + `"`
	}
	return `sh -c 'echo "` + shellRan + ` ${SHELL##*/}"; echo "` + shellRan + `" >&2; ` + rule + `own="$HOME/.cache/fabricform" tmp="/var/tmp/fabricform-$u" session="/run/user/$u/fabricform"; [ -h "$tmp" ] && tmp=/dev/null; [ -O "$tmp" ] || tmp=/dev/null; ` +
		`set -- "$own" "$session" "$tmp"; t=; [ -x "$2/` + program + `" ] || [ -x "$3/` + program + `" ] || { [ -x "$1/` + program + `" ] && t=alone; }; ` +
		`case "${t:-$(stat -f -c %T "$HOME" 2>/dev/null)}" in (nfs*|cifs|smb*|afs|ceph|lustre|gpfs|fhgfs|fuse*|v9fs|panfs|wekafs) h=remote; set -- "$session" "$tmp" "$own";; (*) h=local;; esac; ` +
		`for d in "$@"; do if [ -x "$d/` + program + `" ] && ours "$d" ` + program + ` && [ -x "$f" ]; then ` + run + ` agent --ssh-connection="$SSH_CONNECTION"; fi; done; cd /; ` +
		`printf "` + missing + ` %s %s %s %s %s\n" "$(uname -s)" "$(uname -m)" "$u" "$h" "$HOME"; exit 97'`
}

// examine returns the shell line that checks a folder by the rule, and then does something in it. The folder
// contains only characters that safePath allows.
func examine(dir, version, then string) string {
	return `sh -c '` + rule + `ours "` + dir + `" fabricform-` + version + ` || { printf "%s\n" "$bad"; exit 97; }; ` + then + `'`
}

// absence is what the script reports about a host without the helper.
type absence struct {
	system, machine, uid string
	folders              []string // where the helper may be kept, the preferred one first
}

// parseMissing finds the script's line in the output, which output of the login shell may precede. The values
// come from the host, so they are checked before use.
func parseMissing(out string) (absence, error) {
	i := strings.LastIndex(out, missing+" ")
	if i < 0 {
		return absence{}, errors.New("unexpected answer from the host: " + neutral(out))
	}
	line, _, _ := strings.Cut(out[i+len(missing)+1:], "\n")
	f := strings.SplitN(line, " ", 5)
	if len(f) != 5 {
		return absence{}, errors.New("unexpected answer from the host: " + neutral(line))
	}
	a, home := absence{system: f[0], machine: f[1], uid: f[2]}, f[4]
	if !regexp.MustCompile(`^[0-9]{1,10}$`).MatchString(a.uid) {
		return a, fmt.Errorf("the host's user ID %q is not a number", neutral(a.uid))
	}
	if !safePath().MatchString(home) {
		return a, fmt.Errorf("the home directory %q is not a plain absolute path", neutral(home))
	}
	own := strings.TrimSuffix(home, "/") + "/.cache/fabricform"
	a.folders = []string{own, "/var/tmp/fabricform-" + a.uid, "/run/user/" + a.uid + "/fabricform"}
	if f[3] == "remote" {
		a.folders = append(a.folders[1:], own)
	}
	return a, nil
}

// safePath matches paths that a shell and SFTP read literally.
var safePath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/[A-Za-z0-9._@+/-]*$`) })

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
	if !versionID().MatchString(version) {
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
	where, err := s.awaitGreeting()
	if err != nil {
		return nil, err
	}
	d.startup(c, s)
	if where == nil {
		return s, nil
	}
	if err := d.install(ctx, c, t, *where, version); err != nil {
		return nil, err
	}
	if s, err = c.run(ctx, t.Name, command); err != nil {
		return nil, err
	}
	if where, err = s.awaitGreeting(); err == nil && where != nil {
		err = &Error{Host: t.Name, Op: "start helper", Err: errors.New("the helper was uploaded, but the host does not find it"), Hint: "check whether the home directory is shared or cleaned automatically"}
	}
	return s, err
}
