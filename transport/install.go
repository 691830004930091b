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

// install uploads the helper to the first directory that only the login user can write and that allows
// programs to run.
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
	// Keep 8 to 16 writes of 32 KB in flight. Fewer would wait for round trips, and more would cost sshd CPU.
	files, err := sftp.NewClient(c.client, sftp.MaxConcurrentRequestsPerFile(16), sftp.UseConcurrentWrites(true))
	if err != nil {
		return fail(fmt.Errorf("the host does not offer SFTP (%w)", err), "enable `Subsystem sftp internal-sftp` in its sshd_config and reload sshd")
	}
	defer func() { _ = files.Close() }() // the SSH connection stays open, and an error here changes nothing
	d.progress(t.Name, "uploading the helper (%.1f MB, once per build)", float64(build.Size)/1e6)
	var refused []string
	for _, dir := range where.directories() {
		if err := c.place(files, dir, version, build); err != nil {
			refused = append(refused, fmt.Sprintf("%s: %v", dir, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		return nil
	}
	return fail(fmt.Errorf("no suitable directory: %s", strings.Join(refused, "; ")), "free some space, or create one of them with mode 0700 and the login user as owner, on a file system without noexec")
}

// place uploads the helper under a temporary name, lets the host check the hash, renames the file and tries
// to run it.
func (c *connection) place(files *sftp.Client, dir, version string, build Build) error {
	if err := own(files, dir); err != nil {
		return err
	}
	final := path.Join(dir, "fabricform-"+version)
	nonce := make([]byte, 8)
	if _, err := rand.Read(nonce); err != nil {
		return err
	}
	tmp := path.Join(dir, ".upload-"+hex.EncodeToString(nonce))
	if err := upload(files, tmp, build); err != nil {
		return errors.Join(err, gone(files, tmp))
	}
	err := c.verify(tmp, build.SHA256)
	if err == nil {
		err = files.PosixRename(tmp, final)
	}
	if err == nil {
		err = c.runs(final)
	}
	if err != nil {
		return errors.Join(err, gone(files, tmp), gone(files, final))
	}
	return nil
}

func gone(files *sftp.Client, path string) error {
	if err := files.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// own makes the directory private, or rejects it: users who can write to it could choose what sudo runs.
func own(files *sftp.Client, dir string) error {
	info, err := files.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if parent := path.Dir(dir); path.Base(parent) == ".cache" {
			if _, err := files.Lstat(parent); errors.Is(err, fs.ErrNotExist) {
				if err := files.Mkdir(parent); err != nil {
					return fmt.Errorf("make %s: %w", parent, err)
				}
			}
		}
		if err := files.Mkdir(dir); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		if err := files.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("make directory private: %w", err)
		}
		info, err = files.Lstat(dir)
	}
	if err != nil {
		return fmt.Errorf("look at directory: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("the mode is %s, but it must be a directory with mode 0700 that belongs to the login user", info.Mode())
	}
	return nil
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
	_, err = dst.ReadFromWithConcurrency(src, 16)
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

// runs tries to run the program. On a file system with noexec, the shell exits with status 126.
func (c *connection) runs(file string) error {
	_, err := c.output(file + " version")
	var status *ssh.ExitError
	if errors.As(err, &status) && status.ExitStatus() == 126 {
		return errors.New("the file system does not allow programs to run (noexec)")
	}
	if err != nil {
		return fmt.Errorf("try helper: %w", err)
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
	s.Stdout, s.Stderr = &limited{w: &out, left: 1 << 20}, &errs
	if err := s.Run(command); err != nil {
		if said := errs.String(); said != "" {
			return "", fmt.Errorf("%w: %s", err, said)
		}
		return "", err
	}
	return out.String(), nil
}

// limited drops everything beyond its limit, because a host may print without end.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), l.left)
	l.left -= keep
	if _, err := l.w.Write(p[:keep]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
