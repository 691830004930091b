package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// startsProgram is the environment variable that makes a run of the test below the program.
const startsProgram = "FABRICFORM_TEST_STARTS_PROGRAM"

// TestBashCompletes: with the script that the program prints, in a real bash. Functions of the package bash-completion are replaced by
// a short one, which joins words at = and : as they do.
func TestBashCompletes(t *testing.T) {
	if os.Getenv(startsProgram) != "" {
		os.Exit(run(flag.Args()))
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("this machine has no bash")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile(filepath.Join(dir, "f.hcl"), []byte(completable), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const session = `
fabricform() { "$SELF" -test.run='^TestBashCompletes$' -- "$@"; }
_init_completion() { words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}; }
source <(fabricform completion bash)
for line in "$@"; do
  COMP_WORDS=(fabricform $line) COMP_TYPE=9
  [[ $line != *' ' ]] || COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  __start_fabricform 2>/dev/null
  echo "$line> ${COMPREPLY[*]}"
done`
	cmd := exec.Command(bash, "--norc", "-c", session, "bash", "plan -host gp", "plan -host=gpu1", "show -host rack=", "lab fault f.hcl rail0 swap=s",
		"lab fault f.hcl store:", "lab exec f.hcl gpu1", "plan -host bad", "plan -mark", "verify -only lo")
	cmd.Env = append(os.Environ(), startsProgram+"=1", "SELF="+self, "COLUMNS=80")
	out, err := cmd.CombinedOutput()
	const want = `plan -host gp> gpu0 gpu1
plan -host=gpu1> gpu1
show -host rack=> r1 r2
lab fault f.hcl rail0 swap=s> store:gpu0 store:gpu1
lab fault f.hcl store:> gpu0 gpu1
lab exec f.hcl gpu1> gpu1
plan -host bad> bad=-x
plan -mark> -markdown
verify -only lo> login
`
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}
