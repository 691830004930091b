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

// kvmPatience is shorter, because the first boot takes seconds with KVM. If this machine is a guest itself, the kernel
// may hang under KVM; emulation is tried next.
const kvmPatience = 90 * time.Second

// freeze boots the image and saves the guest's memory, from which labs start in seconds.
func freeze(ctx context.Context, dir, accel string) (err error) {
	runtime.LockOSThread() // the machine ends with the thread that started it
	defer runtime.UnlockOSThread()
	overlay := exec.CommandContext(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", baseFile, diskFile)
	overlay.Dir = dir
	if out, err := overlay.CombinedOutput(); err != nil {
		return fmt.Errorf("create disk: %w: %s", err, out)
	}
	limit := patience
	if accel == "kvm" {
		limit = kvmPatience
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m := machine{image: ".", disk: diskFile, console: "console", monitor: "monitor", accel: accel}
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
	return saveGuest(ctx, dir)
}

func saveGuest(ctx context.Context, dir string) error {
	q, err := dialQMP(dir, "monitor", func() bool { return ctx.Err() == nil })
	if err != nil {
		return err
	}
	port, err := q.sshPort()
	if err != nil {
		return err
	}
	g, err := dialGuest(ctx, port, dir, patience)
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
	// QEMU's working folder is the folder of the image.
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
