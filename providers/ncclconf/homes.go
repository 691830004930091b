package ncclconf

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
	// homesPatience is how long elsewhere waits for all homes of a host together.
	homesPatience = 2 * time.Second
	// maxHomes bounds the number of homes that are looked into, and so the number of threads that may hang.
	maxHomes = 200
)

// homes looks into the homes of a host's users. A home may be on a file server that does not answer, for example while
// the fabric that leads to it is down. A look then hangs in the kernel and cannot be interrupted, so it is left behind
// with its thread. No second look at that home begins until the first one ends, so a long-running helper has at most
// one hanging thread for each home, and at most maxHomes. The zero value is ready for use. homes is safe for
// concurrent use.
type homes struct {
	mu    sync.Mutex
	looks map[string]*look // in progress, by path
}

// look is one check whether a file of a home exists.
type look struct {
	ended chan struct{}
	there bool // valid after ended is closed
}

// elsewhere returns the places other than /etc/nccl.conf from which NCCL takes settings. A file that cannot be read is
// left out. A home that does not answer within homesPatience, or before ctx ends, is reported as unknown.
func (h *homes) elsewhere(ctx context.Context, r host.Reader) []SettingsSource {
	out := login(ctx, r)
	var paths []string
	for _, home := range homesOf(host.Text(ctx, r, "/etc/passwd")) {
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
				out = append(out, SettingsSource{Path: paths[i]})
			}
		default:
			out = append(out, SettingsSource{Path: paths[i], Unknown: true})
		}
	}
	return out
}

// begin starts a look at each path, all at once. If a look at a path is in progress already, it returns that one.
func (h *homes) begin(ctx context.Context, r host.Reader, paths []string) []*look {
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

// homesOf returns the home folders of root and of the users below /home, sorted. Other local users run no jobs.
func homesOf(passwd string) (out []string) {
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
