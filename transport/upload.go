package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// Upload writes the bytes of from, beginning at offset, to a file on the host over the session's connection.
// It calls progress, which may be nil, with the number of bytes sent so far. After an error the file contains
// a first part of the content, whose last MiB may have holes.
func (s *Session) Upload(ctx context.Context, to string, from io.ReaderAt, offset, size int64, progress func(sent int64)) (err error) {
	files, err := openFiles(s.conn.client)
	if err != nil {
		return &Error{Host: s.host, Op: "upload", Err: err, Hint: sftpHint}
	}
	defer func() { _ = files.Close() }() // the SSH connection stays open
	// Only closing the channel can end a transfer early.
	defer context.AfterFunc(ctx, func() { _ = files.Close() })()
	dst, err := files.OpenFile(to, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("create %s: %w", to, err)
	}
	if _, err := dst.Seek(offset, io.SeekStart); err != nil {
		return errors.Join(fmt.Errorf("continue %s at %d: %w", to, offset, err), dst.Close())
	}
	_, err = dst.ReadFromWithConcurrency(&counted{r: io.NewSectionReader(from, offset, size-offset), at: offset, told: progress}, 0)
	if err == nil {
		_ = dst.Sync() // an SFTP extension; if a crash loses data, the hash detects it
	}
	err = errors.Join(err, dst.Close())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", to, err)
	}
	return nil
}

const sftpHint = "enable `Subsystem sftp internal-sftp` in its sshd_config and reload sshd"

// openFiles starts SFTP on a connection, with 512 KiB of writes in flight. Fewer would wait for round trips, and more would cost sshd
// CPU. Every server accepts writes of 32 KiB (draft-ietf-secsh-filexfer-02, section 3).
func openFiles(c *ssh.Client) (*sftp.Client, error) {
	files, err := sftp.NewClient(c, sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(16))
	if err != nil {
		return nil, fmt.Errorf("the host does not offer SFTP (%w)", err)
	}
	if err := enlargeWrites(files); err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return files, nil
}

// enlargeWrites sends four writes of 128 KiB instead of sixteen of 32 KiB, which costs both sides a sixth less CPU, to a server with
// OpenSSH's extension for limits (8.5, file PROTOCOL): it accepts 255 KiB. Options may be set until a file is open.
func enlargeWrites(files *sftp.Client) error {
	if _, has := files.HasExtension("limits@openssh.com"); !has {
		return nil
	}
	return errors.Join(sftp.MaxPacketUnchecked(128<<10)(files), sftp.MaxConcurrentRequestsPerFile(4)(files))
}

// counted reports the progress of a reader.
type counted struct {
	r    io.Reader
	at   int64
	told func(int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	now := atomic.AddInt64(&c.at, int64(n))
	if c.told != nil {
		c.told(now)
	}
	return n, err
}
