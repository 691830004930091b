package explain

import (
	"fmt"
	"slices"
	"strings"
)

// Stage is how far NCCL came, as its log or the output of nccl-tests shows. A log without an error is often that of a job that hangs.
type Stage string

const (
	Initializing Stage = "initializing" // the text does not show that a communicator is ready
	Initialized  Stage = "initialized"  // a communicator is ready, and nothing shows that it was destroyed
	Finished     Stage = "finished"     // all communicators were destroyed, or nccl-tests printed its result
)

// testBegins is how the output of nccl-tests begins (src/common.cu).
const testBegins = "# nThread "

// reached returns how far NCCL came in its last run that the text shows, and the first line after it that is neither NCCL's nor of a
// table; 0: there is none.
func (r *reading) reached(text string) (stage Stage, rest int) {
	stage = Initializing
	ready := map[string]bool{} // ranks of communicators
	number := 0
	for line := range strings.Lines(text) {
		number++
		_, comm, _ := strings.Cut(line, "comm ")
		comm, _, _ = strings.Cut(comm, " nranks ")
		switch {
		case strings.Contains(line, "Init COMPLETE"): // init.cc of NCCL
			if len(ready) < maxHosts {
				ready[comm] = true
			}
			stage = Initialized
		case strings.Contains(line, "Destroy COMPLETE"):
			if delete(ready, comm); len(ready) == 0 {
				stage, rest = Finished, 0
			}
		case strings.Contains(line, "# Out of bounds values : 0 OK"), strings.Contains(line, "# Avg bus bandwidth"):
			clear(ready)
			stage, rest = Finished, 0
		case strings.Contains(line, testBegins), strings.Contains(line, "Init START"):
			if stage == Finished {
				stage = Initializing
			}
		case rest == 0 && !slices.Contains([]class{logLine, rowLine}, r.classes[number]) && strings.Trim(line, "`#$ \t\r\n-=*") != "":
			rest = number
		}
	}
	return stage, rest
}

// leavesOpen says what an explanation without a problem does not show. rest is the first line after NCCL's last run that was not judged.
func (r Explanation) leavesOpen(rest int) string {
	switch {
	case r.Reached == Initializing:
		return "The log does not show that NCCL finished its initialization: if the job hangs, compare the logs of all ranks."
	case r.Reached == Initialized:
		return "The log does not show that a collective finished: if the job hangs, run py-spy dump on each rank, or run ncclras."
	case r.Reached == Finished && rest > 0:
		return fmt.Sprintf("What follows from line %d on is not of NCCL, and was not judged.", rest)
	case r.Reached == Finished:
		return ""
	case r.Kind == Topology:
		return "They show how GPUs and NICs are joined, not whether data goes that way."
	case r.Kind == RAS:
		return "They show one moment: if the job hangs, run ncclras again, and compare the operations."
	case slices.Contains([]Kind{Commands, Slurm, Python, Dockerfile, Compose, Kubernetes, YAML, JSON, Notes}, r.Kind):
		return "They say what is asked for: whether the job runs, its output shows (NCCL_DEBUG=INFO)."
	}
	return ""
}
