package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/pkg/sftp"
)

// Upload writes the bytes of from, beginning at offset, to a file on the host over the session's connection.
// It calls progress, which may be nil, with the number of bytes sent so far. After an error the file contains
// a first part of the content, whose last MiB may have holes.
func (s *Session) Upload(ctx context.Context, to string, from io.ReaderAt, offset, size int64, progress func(sent int64)) (err error) {
	// As for the helper, keep 8 to 16 writes of 32 KB in flight.
	files, err := sftp.NewClient(s.conn.client, sftp.MaxConcurrentRequestsPerFile(uploadsInFlight), sftp.UseConcurrentWrites(true))
	if err != nil {
		return &Error{Host: s.host, Op: "upload", Err: fmt.Errorf("the host does not offer SFTP (%w)", err), Hint: "enable `Subsystem sftp internal-sftp` in its sshd_config and reload sshd"}
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
	_, err = dst.ReadFromWithConcurrency(&counted{r: io.NewSectionReader(from, offset, size-offset), at: offset, told: progress}, uploadsInFlight)
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

const uploadsInFlight = 16

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
