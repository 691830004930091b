package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab"
	"github.com/fabricform/fabricform/lab/site"
	"github.com/fabricform/fabricform/lab/vm"
	"github.com/fabricform/fabricform/nccl/launch"
	"github.com/fabricform/fabricform/probe/perftest"
	"github.com/fabricform/fabricform/validators"
	"github.com/fabricform/fabricform/view"
)

// completionPatience is how long a shell waits for names from files. Larger fabrics have no completion of names.
const completionPatience = time.Second

// names returns the names that a value may have in a fabric.
type names func(f *fabric.Fabric) []string

// closed returns the values of the flags that take one of a fixed set, by command and flag, or by flag.
func closed() map[string][]string {
	return map[string][]string{
		"plan -allow":            changeAllowances,
		"apply -allow":           changeAllowances,
		"destroy -allow":         changeAllowances,
		"rollback -allow":        rollbackAllowances,
		"apply -on-failed-check": checkModes,
		"apply -confirm":         confirmModes,
		"-on-failure":            texts(failureModes),
		"verify -only":           texts(validators.Checks()),
		"capture -test":          texts(perftest.Tests()),
		"graph -format":          view.GraphFormats,
		"render nccl -format":    launch.Names(),
		"lab up -backend":        lab.Backends,
		"-owner":                 vm.Managers(),
	}
}

func texts[T ~string](values []T) (out []string) {
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}

// complete prepares the answer to a shell that asks how a command line goes on: the values of flags, and the arguments after FABRIC.
// line is args as cobra reads it. The scripts drop words that do not begin as the last one does, so flags are written with as many
// dashes as it has.
func (a *app) complete(root *cobra.Command, args, line []string) {
	a.completeBelow(root, closed())
	_ = root.MarkPersistentFlagDirname("chdir")
	last := len(args) - 1
	answer := &answers{out: a.out}
	if begun := args[last]; strings.HasPrefix(begun, "-") && !strings.HasPrefix(begun, "--") && !slices.Contains(args[:last], "--") {
		answer.oneDash = true
		if len(begun) == 2 { // longFlags takes it for a short flag
			line[last] = "-" + begun
		}
	}
	root.SetOut(answer)
	root.SetErr(io.Discard) // cobra explains the answer there
}

func (a *app) completeBelow(c *cobra.Command, closed map[string][]string) {
	path := strings.TrimPrefix(c.CommandPath(), "fabricform ")
	c.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		among := a.among(path, flag.Name)
		values, fixed := closed[path+" -"+flag.Name]
		if !fixed {
			values, fixed = closed["-"+flag.Name]
		}
		if !fixed && among == nil {
			return
		}
		_, list := flag.Value.(pflag.SliceValue)
		_ = c.RegisterFlagCompletionFunc(flag.Name, func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if !fixed {
				values = among(fabricArg(args))
			}
			return fitting(values, begun, list)
		})
	})
	switch path {
	case "lab exec", "lab reboot":
		c.ValidArgsFunction = a.afterFabric(hostNames)
	case "lab fault":
		c.ValidArgsFunction = a.afterFabric(cableNames, faults)
	case "capture":
		c.ValidArgsFunction = a.afterFabric(pathNames)
	case "output":
		c.ValidArgsFunction = a.afterFabric(outputNames)
	}
	for _, sub := range c.Commands() {
		a.completeBelow(sub, closed)
	}
}

// among returns how to list the values of a flag that are in the files of a fabric or on this machine; nil if no list has them.
func (a *app) among(path, flag string) func(fabric string) []string {
	switch {
	case flag == "lab":
		return func(string) []string {
			all, _ := site.Names()
			return all
		}
	case flag == "host", flag == "exclude":
		return a.in((*fabric.Fabric).HostTerms)
	case flag == "link":
		return a.in((*fabric.Fabric).LinkTerms)
	case path == "capture" && flag == "at":
		return a.in(hostNames)
	}
	return nil
}

// in returns the names that the files of a fabric have: none if they have errors or take long to load.
func (a *app) in(of names) func(path string) []string {
	return func(path string) []string {
		if a.enter() != nil {
			return nil
		}
		found := make(chan []string, 1)
		go func() { // until the program ends, which is soon
			o := a.sources()
			o.Editing = true // the values of variables may come later in the line
			if f, _, _ := config.Load(path, o); f != nil {
				found <- of(f)
			} else {
				found <- nil
			}
		}()
		select {
		case out := <-found:
			return out
		case <-time.After(completionPatience):
			return nil
		}
	}
}

// afterFabric completes the arguments that follow FABRIC. output may leave FABRIC out.
func (a *app) afterFabric(of ...names) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		at := len(args) - 1
		if len(args) == 0 && c.Name() == "output" {
			at = 0
		}
		if at < 0 || c.Name() == "exec" && at >= len(of) {
			return nil, cobra.ShellCompDirectiveDefault // files
		}
		if at >= len(of) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out, directive := fitting(a.in(of[at])(fabricArg(args)), begun, false)
		if len(args) == 0 {
			directive = cobra.ShellCompDirectiveDefault // FABRIC may stand here
		}
		return out, directive
	}
}

func hostNames(f *fabric.Fabric) (out []string) {
	for _, h := range f.Hosts {
		out = append(out, h.Name)
	}
	return out
}

func pathNames(f *fabric.Fabric) (out []string) {
	for _, p := range f.Paths() {
		out = append(out, p.Name)
	}
	return out
}

// cableNames are the cables of a lab; none if it could not be built.
func cableNames(f *fabric.Fabric) (out []string) {
	cables, err := f.Cables()
	if err != nil {
		return nil
	}
	for _, c := range cables {
		out = append(out, c.Name)
	}
	return out
}

func faults(f *fabric.Fabric) (out []string) {
	for _, word := range site.FaultWords {
		if word != "swap=" {
			out = append(out, word)
			continue
		}
		for _, name := range cableNames(f) {
			out = append(out, word+name)
		}
	}
	return out
}

func outputNames(f *fabric.Fabric) (out []string) {
	for _, o := range f.Outputs {
		out = append(out, o.Name)
	}
	return out
}

// fitting returns the values that complete what was begun: the last of several between commas, in a list.
func fitting(values []string, begun string, list bool) (out []string, directive cobra.ShellCompDirective) {
	directive = cobra.ShellCompDirectiveNoFileComp
	before := ""
	if list {
		before = begun[:strings.LastIndex(begun, ",")+1]
	}
	for _, v := range values {
		if isWord(v) && strings.HasPrefix(before+v, begun) {
			out = append(out, before+v)
		}
	}
	if len(out) > 0 && !slices.ContainsFunc(out, func(v string) bool { return !strings.HasSuffix(v, "=") }) {
		directive |= cobra.ShellCompDirectiveNoSpace // the value follows
	}
	return out, directive
}

// isWord reports whether a shell reads the text as itself. Labels may have any text.
func isWord(text string) bool {
	return text != "" && text[0] != '-' && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._:/=-", r)
	})
}

// answers prints completions: one a line, and each in one write.
type answers struct {
	out     *view.Printer
	oneDash bool // write flags with one dash
}

func (w *answers) Write(line []byte) (int, error) {
	text := bytes.ReplaceAll(line, []byte("`"), nil) // of descriptions
	if w.oneDash && bytes.HasPrefix(line, []byte("--")) {
		text = text[1:]
	}
	return len(line), w.out.Raw(text)
}
