package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/transport"
	"github.com/fabricform/fabricform/view"
)

// The linker sets these in `make build` and `make release`. A plain `go build` or `go install` leaves them empty.
var (
	linkedVersion, linkedCommit string

	// linkedID is the hash of the sources, the embedded files and the toolchain's version, so that the builds for all
	// platforms share it.
	linkedID string
)

// origin is how this program was built.
type origin struct{ version, commit, id string }

// thisBuild returns the origin of this program. Its ID is "" if only the same file can be its helper.
var thisBuild = sync.OnceValue(func() origin {
	info, _ := debug.ReadBuildInfo()
	return originOf(origin{linkedVersion, linkedCommit, linkedID}, info)
})

// originOf completes what the linker set with what Go recorded in the program.
func originOf(linked origin, info *debug.BuildInfo) origin {
	o := linked
	if info == nil {
		info = &debug.BuildInfo{}
	}
	if o.version == "" {
		o.version = strings.TrimPrefix(info.Main.Version, "v")
	}
	if o.version == "" || o.version == "(devel)" {
		o.version = "dev"
	}
	if o.commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				o.commit = s.Value
			}
		}
	}
	// With `go install MODULE@VERSION`, Go records the hash of the module's files, which the builds for all platforms share.
	if o.id == "" && info.Main.Sum != "" {
		sum := sha256.Sum256([]byte(info.GoVersion + "\n" + info.Path + "\n" + info.Main.Version + "\n" + info.Main.Sum))
		o.id = hex.EncodeToString(sum[:8])
	}
	return o
}

// buildID names this build. A host's helper must be of the same build as the client.
var buildID = sync.OnceValues(func() (string, error) {
	if id := thisBuild().id; id != "" {
		return id, nil
	}
	return transport.OwnID()
})

// helperCure tells where this build's helper for another architecture comes from.
func helperCure(goarch string) string {
	info, _ := debug.ReadBuildInfo()
	return cureFor(goarch, linkedID, info)
}

func cureFor(goarch, linked string, info *debug.BuildInfo) string {
	switch {
	case linked != "":
		return "the package fabricform and the archives of the release contain it; install one of them again (in a checkout, run `make build`)"
	case info != nil && info.Main.Sum != "":
		return fmt.Sprintf("build it with the same Go: CGO_ENABLED=0 GOOS=linux GOARCH=%s go install %s@%s", goarch, info.Path, info.Main.Version)
	}
	return "a plain go build has no helpers for other architectures; install a package or an archive of a release, or run `make build` in a checkout"
}

func versionCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Print version, build and platform", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.printVersion() },
	}
	a.jsonFlag(c, "print as JSON")
	return c
}

func (a *app) printVersion() error {
	id, err := buildID()
	if err != nil {
		return err
	}
	b := view.Build{Version: thisBuild().version, Commit: thisBuild().commit, ID: id, OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}
	if a.asJSON {
		return a.out.BuildJSON(b)
	}
	a.out.Build(b)
	return nil
}
