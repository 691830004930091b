package transport

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// install uploads the helper to the first directory that follows the rule and allows programs to run. It warns of
// directories that break the rule.
func (d *Dialer) install(ctx context.Context, c *connection, t Target, where absence, version string) error {
	fail := func(err error, hint string) error {
		return &Error{Host: t.Name, Op: "upload helper", Err: err, Hint: hint}
	}
	arch, err := where.goarch()
	if err != nil {
		return fail(err, "")
	}
	build, err := d.Helper.Build(arch)
	if err != nil {
		return fail(err, "")
	}
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	files, err := openFiles(c.client)
	if err != nil {
		return fail(err, sftpHint)
	}
	defer func() { _ = files.Close() }() // the SSH connection stays open, and an error here changes nothing
	d.progress(t.Name, "uploading the helper (%.1f MB, once per build)", float64(build.Size)/1e6)
	var refused []string
	for _, dir := range where.folders {
		if err := c.place(files, where.uid, dir, version, build); err != nil {
			refused = append(refused, fmt.Sprintf("%s: %v", dir, err))
			if broken := new(brokenRule); errors.As(err, &broken) {
				d.warn(t.Name, "the helper is not kept in %s: %v", dir, err)
			}
			if ctx.Err() != nil {
				break
			}
			continue
		}
		return nil
	}
	return fail(fmt.Errorf("no suitable directory: %s", strings.Join(refused, "; ")), "make one of them usable: it needs free space, mode 0700, the login user as owner, and a file system without noexec")
}

// place uploads the helper under a temporary name, lets the host check the hash, renames the file and tries
// to run it. Nothing runs before the folder and the file were checked by the rule.
func (c *connection) place(files *sftp.Client, uid, dir, version string, build Build) error {
	if err := makePrivate(files, dir); err != nil {
		return err
	}
	out, err := c.examine(uid, dir, version, "cd -P . && pwd -P")
	if err != nil {
		return err
	}
	// From here on, use the real path, which nobody else can redirect: dir may lead through another
	// user's link.
	if dir = lastLine(out); !safePath().MatchString(dir) {
		return fmt.Errorf("its real path %q is not a plain absolute path", neutral(dir))
	}
	final := path.Join(dir, "fabricform-"+version)
	nonce := make([]byte, 8)
	if _, err := rand.Read(nonce); err != nil {
		return err
	}
	tmp := path.Join(dir, ".upload-"+hex.EncodeToString(nonce))
	if err := upload(files, tmp, build); err != nil {
		return errors.Join(err, removeIfThere(files, tmp))
	}
	err = c.verify(tmp, build.SHA256)
	if err == nil {
		err = files.PosixRename(tmp, final)
	}
	if err == nil {
		_, err = c.examine(uid, dir, version, `"$f" version`)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(files, tmp), removeIfThere(files, final))
	}
	return nil
}

func removeIfThere(files *sftp.Client, path string) error {
	if err := files.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// makePrivate makes the directory, and the folder .cache above it, if they do not exist.
func makePrivate(files *sftp.Client, dir string) error {
	folders := []string{dir}
	if parent := path.Dir(dir); path.Base(parent) == ".cache" {
		folders = []string{parent, dir}
	}
	for _, folder := range folders {
		is, err := files.Lstat(folder)
		if err == nil && strings.HasPrefix(folder, "/var/tmp/") && is.Mode()&fs.ModeSymlink != 0 { // the start script does not follow it
			err = errors.New("it is a symbolic link")
		}
		if errors.Is(err, fs.ErrNotExist) {
			if err = files.Mkdir(folder); err == nil {
				err = files.Chmod(folder, 0o700) // the umask may leave it writable for a group
			}
		}
		if err != nil {
			return fmt.Errorf("make %s: %w", folder, err)
		}
	}
	return nil
}

// brokenRule is a folder or program that another user could replace. An earlier build may have used it.
type brokenRule struct{ reasons []string }

func (b *brokenRule) Error() string { return strings.Join(b.reasons, "; ") }

// examine checks the directory and the program in it by the rule, and only then runs a shell command in it, whose output
// it returns. On a file system with noexec, the shell exits with status 126.
func (c *connection) examine(uid, dir, version, then string) (string, error) {
	out, err := c.output(examine(dir, version, then))
	var status *ssh.ExitError
	switch {
	case err == nil:
		return out, nil
	case !errors.As(err, &status):
	case status.ExitStatus() == 126:
		return "", errors.New("the file system does not allow programs to run (noexec)")
	case status.ExitStatus() == exitMissing:
		if broken := parseUnsafe(out, uid); len(broken.reasons) > 0 {
			return "", broken
		}
		return "", errors.New("the login user cannot enter it and list all folders above it")
	}
	return "", fmt.Errorf("try helper: %w", err)
}

// parseUnsafe explains the lines with what breaks the rule, which output of the login shell may precede.
func parseUnsafe(out, uid string) *brokenRule {
	b := &brokenRule{}
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(neutral(line)), " ", 5)
		if len(f) != 5 || f[0] != unsafe {
			continue
		}
		mode, owner, at := f[1], f[2], path.Join(f[4], f[3])
		switch inside := !strings.HasPrefix(f[3], "./.."); {
		case inside && owner != uid:
			b.reasons = append(b.reasons, fmt.Sprintf("%s belongs to user ID %s, not to the login user (%s), and may hold that user's program: remove it as root (rm -r %s)", at, owner, uid, at))
		case inside:
			b.reasons = append(b.reasons, fmt.Sprintf("%s has mode %s, but only the login user may have access: run chmod 700 %s", at, mode, at))
		case owner != uid && owner != "0":
			b.reasons = append(b.reasons, fmt.Sprintf("%s belongs to user ID %s, who could replace what is in it: give it to root or the login user (chown)", at, owner))
		default:
			b.reasons = append(b.reasons, fmt.Sprintf("%s has mode %s, so that other users could replace what is in it: run chmod go-w %s", at, mode, at))
		}
	}
	return b
}

func upload(files *sftp.Client, tmp string, build Build) (err error) {
	src, err := build.Open()
	if err != nil {
		return fmt.Errorf("open helper: %w", err)
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := files.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	_, err = dst.ReadFromWithConcurrency(src, 0)
	if err == nil {
		// fsync is an extension of SFTP. Without it a crash may damage the upload, which the hash detects.
		_ = dst.Sync()
		err = dst.Chmod(0o700)
	}
	err = errors.Join(err, dst.Close())
	if err != nil {
		return fmt.Errorf("write %d bytes (is the disk full?): %w", build.Size, err)
	}
	return nil
}

// verify lets the host hash the uploaded file. The path contains only characters that safePath allows.
func (c *connection) verify(file, want string) error {
	out, err := c.output("sha256sum " + file)
	if err != nil {
		return fmt.Errorf("check hash: %w", err)
	}
	got, _, _ := strings.Cut(strings.TrimPrefix(lastLine(out), `\`), " ")
	if got != want {
		return fmt.Errorf("check hash: the host has %q, but %q was sent", neutral(got), want)
	}
	return nil
}

func (c *connection) output(command string) (string, error) {
	s, err := c.client.NewSession()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	var errs bounded
	s.Stdout, s.Stderr = &limited{w: &out, remaining: 1 << 20}, &errs
	if err = s.Run(command); err != nil {
		if said := errs.String(); said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
	}
	return out.String(), err
}

// limited drops everything beyond its limit, because a host may print without end.
type limited struct {
	w         io.Writer
	remaining int
}

func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), l.remaining)
	l.remaining -= keep
	if _, err := l.w.Write(p[:keep]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
