package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is the limit for the first boot. Emulated, it takes 35 s on an idle machine, and minutes on a busy one.
const patience = 10 * time.Minute

// freeze boots the image and saves the guest's memory, from which labs start in seconds, and the changes of the disk in
// a folder of the image that has the accelerator's name.
func freeze(ctx context.Context, image, accel string) (err error) {
	dir := filepath.Join(image, accel)
	// The overlay finds its base by name, there and later in the image's folder.
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Link(filepath.Join(image, baseFile), filepath.Join(dir, baseFile))); err != nil {
		return err
	}
	runtime.LockOSThread() // the machine ends with the thread that started it
	defer runtime.UnlockOSThread()
	overlay := exec.CommandContext(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", baseFile, diskFile)
	overlay.Dir = dir
	if out, err := overlay.CombinedOutput(); err != nil {
		return fmt.Errorf("create disk: %w: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m := machine{image: "..", disk: diskFile, console: "console", monitor: "monitor", accel: accel}
	cmd := exec.CommandContext(ctx, program, m.args()...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(dir, "qemu"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ctx, ended := context.WithCancelCause(ctx)
	go func() { ended(errors.Join(errors.New("QEMU has exited"), cmd.Wait())) }()
	defer func() {
		_ = cmd.Process.Kill() // it may have exited
		if err != nil {
			said, _ := os.ReadFile(filepath.Join(dir, "qemu"))
			console, _ := os.ReadFile(filepath.Join(dir, "console"))
			err = fmt.Errorf("%w; output of QEMU: %s; console: %s", err, lastLines(string(said), 3), lastLines(string(console), 5))
		}
	}()
	return saveGuest(ctx, image, dir)
}

// saveGuest waits until the guest whose QEMU works in dir is up, and saves it.
func saveGuest(ctx context.Context, image, dir string) error {
	q, err := dialQMP(dir, "monitor", func() bool { return ctx.Err() == nil })
	if err != nil {
		return err
	}
	port, err := q.sshPort()
	if err != nil {
		return err
	}
	g, err := dialGuest(ctx, port, image, patience)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	// After this, everything that a login needs is in memory.
	if _, err := g.sh(ctx, "systemctl is-system-running --wait >/dev/null; sync", ""); err != nil {
		return err
	}
	g.close()
	if _, err := q.do("stop", nil); err != nil {
		return err
	}
	if _, err := q.do("migrate", map[string]string{"uri": "exec:cat > " + stateFile}); err != nil {
		return err
	}
	if err := q.awaitMigration(ctx); err != nil {
		return err
	}
	_, err = q.do("quit", nil)
	return err
}

// lockFile waits for a lock on a file. The returned function releases the lock.
func lockFile(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing unlocks
}
