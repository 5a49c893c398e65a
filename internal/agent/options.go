// SPDX-License-Identifier: Apache-2.0

package agent

import "time"

// A Request is what is to be kept running. Args say all of it: requests with the same name and the same Args are the same.
type Request struct {
	Name string
	Args []string
}

// A Process is what runs for a request.
type Process interface {
	// Reports yields what the process says of itself. The channel is closed when it has ended.
	Reports() <-chan Report
	// Stop asks it to end. Asked a second time, it ends at once and gives up what it has not written.
	Stop()
	// Kill ends it without asking.
	Kill()
	// Err is why it has ended, nil if it had nothing more to do. It is to be called when Reports is closed.
	Err() error
}

// A Report is what a process says of itself from time to time. Numbers are those since it began.
type Report struct {
	Attached bool              `json:"attached"` // it traces
	Records  uint64            `json:"records"`
	Lost     map[string]uint64 `json:"lost,omitempty"` // by cause
}

// Options of a Supervisor.
type Options struct {
	Start func(Request) (Process, error)
	// Say is told what happens to a request. Several goroutines call it.
	Say func(request, text string)
}

// times are how long a Supervisor waits. A zero one has its usual value.
type times struct {
	first, most time.Duration // before a request that has failed is begun again; doubled after each failure
	steady      time.Duration // after which a failure counts as the first
	grace, last time.Duration // after Stop until the second Stop, and from then until Kill
}

// usual are the times of the service. Its grace is how long ksnoop trace takes to end.
var usual = times{first: time.Second, most: 5 * time.Minute, steady: 2 * time.Minute, grace: 2 * time.Second, last: 1500 * time.Millisecond}

// A State is what a request does.
type State string

// The states. A request that has ended had something to wait for, such as --for or a process.
const (
	Starting State = "starting"
	Running  State = "running"
	Failed   State = "failed" // and waits to be begun again
	Ended    State = "ended"
)

// states are all states.
var states = [...]State{Starting, Running, Failed, Ended}

// A Status is what is known of a request.
type Status struct {
	Name     string            `json:"name"`
	State    State             `json:"state"`
	Records  uint64            `json:"records"`
	Lost     map[string]uint64 `json:"lost,omitempty"`
	Failures uint64            `json:"failures"`
	Restarts uint64            `json:"restarts"`
	Reason   string            `json:"reason,omitempty"` // of the last failure
}
