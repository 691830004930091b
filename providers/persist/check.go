package persist

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/fabricform/fabricform/netmanager"
)

// Check runs each manager's own parser on a staged copy of the wanted files, beside the files of others. Errors
// for a manager without a parser show up only when it reads the files. Missing programs are skipped.
func Check(ctx context.Context, h netmanager.Asker, wanted []netmanager.File) error {
	var errs []error
	for _, f := range wanted {
		var err error
		switch dir := path.Dir(f.Path); {
		case f.Folder:
		case dir == unitFolder:
			f.Text = strings.ReplaceAll(f.Text, "ExecStart="+copyPath(""), "ExecStart=true ") // the copy may not be there yet
			err = checkStaged(ctx, h, f, "systemd-analyze", "verify", "--man=no")
		case dir == rulesFolder:
			err = checkStaged(ctx, h, f, "udevadm", "verify", "--no-summary")
		}
		errs = append(errs, err)
	}
	for _, m := range netmanager.All {
		if files := m.Of(wanted); files != nil && m.Check != nil {
			errs = append(errs, m.Check(ctx, h, files))
		}
	}
	return errors.Join(errs...)
}

func checkStaged(ctx context.Context, h netmanager.Asker, f netmanager.File, program string, args ...string) (err error) {
	root, discard, err := h.Stage(map[string][]byte{f.Path: []byte(f.Text)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard()) }()
	a, err := h.Ask(ctx, nil, program, append(args, root+f.Path)...)
	return netmanager.ParserError(a, err, f.Path, root)
}
