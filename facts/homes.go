package facts

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fabricform/fabricform/host"
)

const (
	// homesPatience is how long all homes of a host together are waited for.
	homesPatience = 2 * time.Second
	// maxHomes bounds how many homes are looked into, and with that the threads that may hang.
	maxHomes = 200
)

// Homes looks into the homes of a host's users. A home may lie on a file server that does not answer,
// as while the fabric is down that leads to it: a look then hangs in the kernel, and nothing takes it
// back. It is left behind with its thread, and that home is not looked into anew before it ends: a
// helper that is asked for long has one thread for each home that hangs, at most maxHomes. The zero
// value is ready; safe for concurrent use.
type Homes struct {
	mu    sync.Mutex
	looks map[string]*look // those under way, by path
}

// look is one at a file of a home.
type look struct {
	ended chan struct{}
	there bool // once it has ended
}

// NCCLElse finds where NCCL takes settings from beside /etc/nccl.conf. What cannot be read is no
// place; a home that does not answer within homesPatience, or before ctx ends, is one that is not known.
func (h *Homes) NCCLElse(ctx context.Context, r host.Reader) []NCCLPlace {
	out := ncclLogin(ctx, r)
	var paths []string
	for _, home := range homes(host.Text(ctx, r, "/etc/passwd")) {
		paths = append(paths, path.Join(home, ".nccl.conf"))
	}
	looks := h.begin(ctx, r, paths)
	ctx, cancel := context.WithTimeout(ctx, homesPatience)
	defer cancel()
	for i, l := range looks {
		select {
		case <-l.ended:
		case <-ctx.Done():
		}
		select {
		case <-l.ended:
			if l.there {
				out = append(out, NCCLPlace{Path: paths[i]})
			}
		default:
			out = append(out, NCCLPlace{Path: paths[i], Unknown: true})
		}
	}
	return out
}

// begin looks at all paths side by side; where a look is under way already, that is the one.
func (h *Homes) begin(ctx context.Context, r host.Reader, paths []string) []*look {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.looks == nil {
		h.looks = map[string]*look{}
	}
	out := make([]*look, len(paths))
	for i, at := range paths {
		l := h.looks[at]
		if l == nil {
			l = &look{ended: make(chan struct{})}
			h.looks[at] = l
			go func() { // ends when the kernel answers
				stat, err := r.Stat(ctx, at)
				l.there = err == nil && !stat.Mode.IsDir()
				h.mu.Lock()
				delete(h.looks, at)
				h.mu.Unlock()
				close(l.ended)
			}()
		}
		out[i] = l
	}
	return out
}

// homes are the home folders of root and of people, sorted: other local users run no jobs.
func homes(passwd string) (out []string) {
	for line := range strings.Lines(passwd) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 7 || len(out) >= maxHomes {
			continue
		}
		home := fields[5]
		if path.Clean(home) == home && (home == "/root" || strings.HasPrefix(home, "/home/")) {
			out = append(out, home)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
