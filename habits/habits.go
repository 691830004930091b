// Package habits knows commands and flags of other tools, and says what fabricform has in their place.
package habits

import (
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// word is the cure for commands or flags that fabricform does not have.
type word struct {
	names string // separated by spaces
	cure  string // sentences; commands stand in backquotes
}

// commands are those of OpenTofu, Terraform, Pulumi, Ansible and kubectl.
var commands = []word{
	{"init get providers upgrade", "There is nothing to prepare: fabricform has no providers, modules or state file. " +
		"Write the *.hcl files, then run `fabricform validate` and `fabricform plan`."},
	{"state", "fabricform keeps no state file: each host records what fabricform changed there. `fabricform show` prints what " +
		"fabricform owns on the hosts, and `fabricform history` prints what was applied."},
	{"refresh", "fabricform keeps no state file. `fabricform plan` reads the hosts each time."},
	{"taint untaint", "fabricform keeps no state file. `fabricform plan` compares the hosts with the files each time, and shows what somebody " +
		"else changed. `fabricform apply` corrects it."},
	{"console", "To see the value of an expression, write it into the files as output \"NAME\" { value = … } and run `fabricform output`."},
	{"workspace stack", "A directory is one fabric: use one directory for each fabric. If only values differ, use one file of values for each, " +
		"and choose it with -var-file."},
	{"login logout", "There is no account: fabricform reaches the hosts over SSH, with your keys and ~/.ssh/config. Run `fabricform plan`."},
	{"force-unlock", "To see who holds the hosts, run `fabricform pending`. `fabricform rollback` ends an open transaction, and `fabricform unlock` " +
		"ends one whose rollback failed."},
	{"test check ping", "To check the files, run `fabricform validate`. To measure the fabric, run `fabricform verify`. " +
		"To rehearse without hosts, run `fabricform lab up`."},
	{"diff preview", "Run `fabricform plan`."},
	{"up deploy run", "Run `fabricform apply`, or `fabricform lab up` for a lab."},
	{"down delete remove", "Run `fabricform destroy`, or `fabricform lab down` for a lab."},
	{"undo revert", "Run `fabricform rollback`."},
	{"status describe facts inventory list", "`fabricform show` prints the hosts, `fabricform pending` prints open transactions, and " +
		"`fabricform lab status` prints a lab."},
	{"lint", "Run `fabricform validate`."},
	{"log logs", "Run `fabricform history`."},
	{"ssh exec shell", "To log in to a host, use ssh. To run a command in a lab's host, run `fabricform lab exec FABRIC HOST -- COMMAND`."},
}

// labCommands are those of containerlab, Vagrant, docker compose and virsh, below `fabricform lab`.
var labCommands = []word{
	{"start create deploy apply run build", "Run `fabricform lab up`."},
	{"stop destroy delete remove rm clean halt kill", "Run `fabricform lab down`."},
	{"restart reset reload", "To reboot a host of virtual machines, run `fabricform lab reboot FABRIC HOST`. For a new lab, run `fabricform lab down` and " +
		"`fabricform lab up`."},
	{"ssh shell console enter attach login connect bash", "Run `fabricform lab exec FABRIC HOST -- bash`."},
	{"list ls ps show inspect info", "Run `fabricform lab status`."},
	{"break cut unplug plug repair heal fix", "To break a cable, run `fabricform lab fault FABRIC LINK cut`. To repair it, write none in place of cut."},
}

// flags are those of the same tools, without their dashes. A cure that names flags is for commands that have them: the first row whose
// cure the command can follow is taken.
var flags = []word{
	{"target limit l hosts", "To choose hosts, use -host=NAME. A glob or a label, such as rack=r1, also works."},
	{"refresh refresh-only", "Leave it out: fabricform keeps no state file, and plans read the hosts each time."},
	{"replace", "There is nothing to replace: leave it out. Plans compare the hosts with the files each time."},
	{"lock lock-timeout", "A transaction on each host is the lock, and cannot be turned off: leave it out."},
	{"state state-out backup backend-config reconfigure migrate-state", "fabricform keeps no state file: leave it out."},
	{"input", "fabricform never asks for values: leave it out. Set variables with -var, -var-file or FABRICFORM_VAR_NAME."},
	{"yes y force f", "To make the changes without a question, use -auto-approve."},
	{"o output", "To save a plan, use -out. For output as data, use -json."},
	{"o output type f", "To choose the format, use -format."},
	{"o output format", "For output as data, use -json."},
	{"skip skip-checks exclude-check check checks c", "To choose checks, name those to run with -only."},
	{"check dry-run diff C", "To see the changes without making them, run `fabricform plan`."},
	{"write w list", "Leave it out: files are rewritten, and the names of those that changed are printed. With -check, no file is written."},
	{"v", "To print the version, use -version."},
	{"v vv vvv verbose debug trace", "The output is always complete. Remove the flag."},
	{"e extra-vars set", "To set a variable, use -var name=value."},
	{"forks", "To work on more or fewer hosts in parallel, use -parallelism."},
	{"u user k private-key b become", "Write it into the ssh block of the host, or into ~/.ssh/config."},
	{"i inventory", "Name the directory or the file of the fabric without a flag."},
}

// Command returns what to use in place of a command that the program, or a group of its commands, does not have. known are the
// commands of the program or the group.
func Command(group, name string, known []string) string {
	table := map[string][]word{"fabricform": commands, "fabricform lab": labCommands}[group]
	if said := cure(table, name, func(string) bool { return true }); said != "" {
		return said
	}
	if near := env.Nearest(name, known); near != "" {
		return "Did you mean `" + group + " " + near + "`?"
	}
	return "The commands are " + strings.Join(known, ", ") + "."
}

// Flag returns what to use in place of a flag that the command does not have: a sentence, or "". Names have no dashes. known are the
// flags of the command.
func Flag(name string, known []string) string {
	said := cure(flags, name, func(cure string) bool {
		return !slices.ContainsFunc(flagsOf(cure), func(flag string) bool { return !slices.Contains(known, flag) })
	})
	if near := env.Nearest(name, known); said == "" && near != "" {
		return "Did you mean -" + near + "?"
	}
	return said
}

// cure returns the first cure for a word that fits; "" if there is none.
func cure(table []word, name string, fits func(cure string) bool) string {
	for _, w := range table {
		if slices.Contains(strings.Fields(w.names), name) && fits(w.cure) {
			return w.cure
		}
	}
	return ""
}

// flagsOf returns the flags that a cure names, without their dashes.
func flagsOf(cure string) (out []string) {
	for field := range strings.FieldsSeq(cure) {
		if flag, is := strings.CutPrefix(field, "-"); is && flag != "-" {
			flag, _, _ = strings.Cut(flag, "=")
			out = append(out, strings.TrimRight(flag, ".,"))
		}
	}
	return out
}
