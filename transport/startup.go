package transport

import (
	"strings"
	"time"
)

// shellRan begins the line that the start script prints first, with the name of the login shell. What comes before it, and
// the time until it, are those of the host's startup files.
const shellRan = "fabricform-shell"

// startPatience is how long the helper may take to greet. It is a variable for tests.
var startPatience = 20 * time.Second

// slowStart is how long a login shell may take until it runs a command, unless the login itself took longer: then the host
// or the path is slow, and not its startup files.
const slowStart = time.Second

// startup warns of startup files that take long or print: every login pays for them, and what they print can hide a fault.
func (d *Dialer) startup(c *connection, s *Session) {
	if s.shell > max(slowStart, c.login) {
		d.warn(s.host, "a login takes more than %s until it runs a command, every time: %s", slowStart, s.startupFiles())
	}
	out, _, _ := strings.Cut(s.peeked.String(), shellRan)
	errs, _, ran := strings.Cut(s.errs.String(), shellRan)
	if !ran {
		errs = "" // it may come from what the script ran
	}
	said := neutral(strings.TrimSpace(out + " " + errs))
	if runes := []rune(said); len(runes) > 60 {
		said = string(runes[:60]) + "…"
	}
	if said != "" {
		d.warn(s.host, "a login prints %q before it runs a command: %s", said, s.startupFiles())
	}
}

// startupFiles names the files that the host reads before a command without a terminal. sshd's come first.
func (s *Session) startupFiles() string {
	const all = "~/.ssh/rc, /etc/ssh/sshrc"
	by := map[string]string{
		"bash": "~/.bashrc, /etc/bash.bashrc",
		"zsh":  "~/.zshenv, /etc/zsh/zshenv, /etc/zshenv",
		"fish": "~/.config/fish/config.fish, ~/.config/fish/conf.d, /etc/fish/config.fish",
		"csh":  "~/.cshrc, /etc/csh.cshrc",
		"tcsh": "~/.tcshrc, ~/.cshrc, /etc/csh.cshrc",
	}
	_, after, _ := strings.Cut(s.peeked.String(), shellRan+" ")
	shell, _, _ := strings.Cut(after, "\n")
	if files, known := by[shell]; known {
		return "check the startup files of " + shell + " (" + files + ") and of sshd (" + all + ")"
	}
	return "check the startup files of the login shell (such as " + by["bash"] + ") and of sshd (" + all + ")"
}
