//go:build linux

package slurm

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// How a program is sent. Each message has to reach all nodes below one of slurmd's tree within the timeout. By default, it has 8 MB and
// MessageTimeout, 10 s: of 27 MB to 64 nodes on a machine with other work, srun --bcast lost some, and the step with them.
const (
	messageSize    = "1m"
	messageTimeout = "60" // seconds
	sendPatience   = 5 * time.Minute
	packing        = 4 // a level of gzip: two fifths of the size, in half the time of the default level
)

// receiver is the script of a step that gets a program. $1 is a random word. The first line of its input is a folder, which it makes, and
// which only this user can enter. It says that it is ready, and waits for the word: the program is there. Then it goes on as the program, whose
// credential follows on the same input.
//
// Every user can read the arguments of srun. The folder is not among them: who made it first could keep the helper out. A file outside of such a
// folder could be replaced before root starts it.
const receiver = `umask 077
IFS= read -r dir && mkdir -p "${dir%/*}" && mkdir "$dir" || exit
echo "$1 $SLURMD_NODENAME $SLURM_STEP_ID"
IFS= read -r word || word=
if [ "$word" = "$1" ]; then
  gzip -dc "$dir/gz" > "$dir/new" && chmod 700 "$dir/new" && [ -x "$dir/new" ] && rm "$dir/gz" && exec "$dir/new" agent ` + dialBackFlag + `
  echo "` + failure + ` $SLURMD_NODENAME the program that was sent cannot be unpacked or started in ${dir%/*}: is it full, or mounted with noexec?" >&2
fi
rm -rf "$dir"
exit 1
`

// packed is the helper for an architecture, compressed in a file.
type packed struct {
	once sync.Once
	path string
	err  error
}

// pack returns the compressed helper for an architecture. Close removes it.
func (c *Cluster) pack(goarch string) (string, error) {
	c.mu.Lock()
	if c.packed == nil {
		c.packed = map[string]*packed{}
	}
	p := c.packed[goarch]
	if p == nil {
		p = &packed{}
		c.packed[goarch] = p
	}
	c.mu.Unlock()
	p.once.Do(func() { p.path, p.err = c.compress(goarch) })
	return p.path, p.err
}

// compress writes the helper into a file of a new folder.
func (c *Cluster) compress(goarch string) (path string, err error) {
	build, err := c.Helper.Build(goarch)
	if err != nil {
		return "", err
	}
	from, err := build.Open()
	if err != nil {
		return "", fmt.Errorf("open helper: %w", err)
	}
	defer from.Close()
	dir, err := os.MkdirTemp("", "fabricform-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "gz")
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		w, _ := gzip.NewWriterLevel(to, packing) // the level is valid
		_, err = io.Copy(w, from)
		err = errors.Join(err, w.Close(), to.Close())
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("compress the helper: %w", err), os.RemoveAll(dir))
	}
	return path, nil
}

// removePacked removes the compressed helpers.
func (c *Cluster) removePacked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.packed {
		if p.path != "" {
			_ = os.RemoveAll(filepath.Dir(p.path)) // a folder for temporary files, which is cleared by others as well
		}
	}
}

// send starts a step on nodes of an allocation, and sends the helper to it down slurmd's tree. Afterwards, the step is the helper.
func (c *Cluster) send(ctx context.Context, s step, names []string) (*process, error) {
	word := "fabricform-" + rand.Text()
	path := sentByRoot + rand.Text()
	if s.sudo {
		path = sentBySudo + rand.Text()
	}
	ready := make(chan string, len(names))
	p, err := start(append(stepOf(s.hold, names, s.gpus), "/bin/sh", "-c", receiver, "sh", word), func(line string) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == word && strings.Trim(f[2], "0123456789") == "" {
			select {
			case ready <- f[2]:
			default:
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(p.in, path+"\n"); err != nil {
		p.stop()
		return nil, errors.New(p.said())
	}
	file, err := c.pack(s.goarch)
	id, late := "", time.After(startPatience)
	for n := 0; n < len(names) && err == nil; n++ {
		select {
		case id = <-ready:
		case <-p.exited:
			err = errors.New(p.said())
		case <-ctx.Done():
			err = ctx.Err()
		case <-late:
			err = fmt.Errorf("%d of %d nodes were not ready for the program within %s: %s", len(names)-n, len(names), startPatience, p.errs.String())
		}
	}
	if err == nil {
		_, err = within(ctx, sendPatience, "", "sbcast", "--jobid="+s.hold.job+"."+id, "--size="+messageSize, "--timeout="+messageTimeout,
			"--compress=none", "--send-libs=no", file, path+"/gz")
	}
	if err == nil {
		_, err = io.WriteString(p.in, word+"\n")
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}
