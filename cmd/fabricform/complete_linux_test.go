package main

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// startsProgram is the environment variable that makes a run of TestBashCompletes the program.
const startsProgram = "FABRICFORM_TEST_STARTS_PROGRAM"

// lines are command lines to complete at their ends, without the name of the program.
var lines = []string{"plan -host gp", "plan -host=gpu1", "show -host rack=", "lab fault f.hcl rail0 swap=s", "lab fault f.hcl store:", "lab exec f.hcl gpu1",
	"plan -host bad", "plan -mark", "verify -only lo"}

// TestBashCompletes: with the script that the program prints, in a real bash. Functions of the package bash-completion are replaced by
// a short one, which joins words at = and : as they do.
func TestBashCompletes(t *testing.T) {
	if os.Getenv(startsProgram) != "" {
		os.Exit(run(flag.Args()))
	}
	const session = `
_init_completion() { words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}; }
source <(fabricform completion bash)
for line in "$@"; do
  COMP_WORDS=(fabricform $line) COMP_TYPE=9
  [[ $line != *' ' ]] || COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  __start_fabricform 2>/dev/null
  echo "$line> ${COMPREPLY[*]}"
done`
	shellCompletes(t, `plan -host gp> gpu0 gpu1
plan -host=gpu1> gpu1
show -host rack=> r1 r2
lab fault f.hcl rail0 swap=s> store:gpu0 store:gpu1
lab fault f.hcl store:> gpu0 gpu1
lab exec f.hcl gpu1> gpu1
plan -host bad> bad=-x
plan -mark> -markdown
verify -only lo> login
`, "bash", "--norc", "-c", session, "bash")
}

// TestZshCompletes: a zsh on a terminal, in which each line and a tab are typed. A function in the place of the command that adds matches
// notes them.
func TestZshCompletes(t *testing.T) {
	const session = `
zmodload zsh/zpty
zpty z 'zsh -f -i'
prompt=$'*\nREADY'
zpty -w z 'unsetopt promptsp; PROMPT=$'"'\nREADY'"; zpty -r z seen $prompt
say() { zpty -w z "$1"; zpty -r z seen $prompt; }
say 'autoload -Uz compinit; compinit -u -D; source <(fabricform completion zsh)'
say 'compadd() { local -a got; [[ " $* " = *" -"[OAD]" "* ]] || { builtin compadd -O got "$@"; print -rn -- " $got" >> matches }; builtin compadd "$@" }'
for line in "$@"; do
  print -rn -- "$line>" >> matches
  say "fabricform $line"$'\t\C-u'
  print >> matches
done
cat matches`
	shellCompletes(t, `plan -host gp> gpu0 gpu1
plan -host=gpu1> gpu1
show -host rack=> rack=r1 rack=r2
lab fault f.hcl rail0 swap=s> swap=store:gpu0 swap=store:gpu1
lab fault f.hcl store:> store:gpu0 store:gpu1
lab exec f.hcl gpu1> gpu1
plan -host bad> bad=-x
plan -mark> -markdown
verify -only lo> login
`, "zsh", "-f", "-c", session, "zsh")
}

// TestFishCompletes: fish says itself how it would complete a line.
func TestFishCompletes(t *testing.T) {
	const session = `
fabricform completion fish | source
for line in $argv
  echo "$line>" (complete -C "fabricform $line")
end`
	shellCompletes(t, `plan -host gp> gpu0 gpu1
plan -host=gpu1> -host=gpu1
show -host rack=> rack=r1 rack=r2
lab fault f.hcl rail0 swap=s> swap=store:gpu0 swap=store:gpu1
lab fault f.hcl store:> store:gpu0 store:gpu1
lab exec f.hcl gpu1> gpu1
plan -host bad> bad=-x
plan -mark> -markdown	print Markdown for a pull request
verify -only lo> login
`, "fish", "--no-config", "-c", session)
}

// TestAFullDiskIsNoSuccess: a pipeline would otherwise keep half of a plan as a whole one. A reader that ends early, as head does, is no error.
func TestAFullDiskIsNoSuccess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{
		`"$SELF" -test.run='^TestBashCompletes$' -- version 2>&1 > /dev/full; echo $?`: "✗ error: the output is not complete: write /dev/stdout: no space left on device\n1\n",
		`"$SELF" -test.run='^TestBashCompletes$' -- version 2>&1 | true; echo $?`:      "0\n",
	} {
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = append(os.Environ(), startsProgram+"=1", "SELF="+self, "NO_COLOR=1", "LC_ALL=C.UTF-8")
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%v: %q, want %q", err, out, want)
		}
	}
}

// shellCompletes runs a session of a shell with lines as its arguments, in a folder with a fabric, and compares what it prints. The shell
// finds the program by its name.
func shellCompletes(t *testing.T, want, shell string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("this machine has no " + shell)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{"f.hcl": completable, "bin/fabricform": "#!/bin/sh\nexec \"$SELF\" -test.run='^TestBashCompletes$' -- \"$@\"\n"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute) // a prompt that does not come
	defer stop()
	cmd := exec.CommandContext(ctx, shell, append(args, lines...)...)
	cmd.Env = append(os.Environ(), startsProgram+"=1", "SELF="+self, "COLUMNS=80", "TERM=dumb", "HOME="+dir, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}
