// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/ksnoop/ksnoop/internal/container"
)

// A podList is what of Kubernetes' PodList is read.
type podList struct {
	Kind  string `json:"kind"`
	Items list[struct {
		Metadata struct {
			Name        string `json:"name"`
			Namespace   string `json:"namespace"`
			UID         string `json:"uid"`
			Annotations struct {
				// ConfigHash is the UID that a pod has in cgroups which the kubelet has from a file.
				ConfigHash string `json:"kubernetes.io/config.hash"`
			} `json:"annotations"`
		} `json:"metadata"`
		Status struct {
			Containers list[status] `json:"containerStatuses"`
			Init       list[status] `json:"initContainerStatuses"`
			Ephemeral  list[status] `json:"ephemeralContainerStatuses"`
		} `json:"status"`
	}] `json:"items"`
}

// A list is one of JSON, of which no more than mostNames are read: each may take a few bytes of the answer, and many times as much here.
type list[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *list[T]) UnmarshalJSON(text []byte) error {
	*l = nil
	in := json.NewDecoder(bytes.NewReader(text))
	switch first, err := in.Token(); {
	case err != nil:
		return err
	case first == nil: // null
		return nil
	case first != json.Delim('['):
		return errors.New("not a list")
	}
	for in.More() && len(*l) < mostNames {
		var one T
		if err := in.Decode(&one); err != nil {
			return err
		}
		*l = append(*l, one)
	}
	return nil
}

// A status is that of a container. Its ID is behind the name of the runtime: containerd://ID.
type status struct {
	Name string `json:"name"`
	ID   string `json:"containerID"`
}

// mostNames is how many containers, and pods, have names. Those of more are left out.
const mostNames = 1 << 16

// names returns what containers and pods are called, by their IDs and UIDs.
func (l *podList) names() (containers, pods map[string]container.Names) {
	containers, pods = map[string]container.Names{}, map[string]container.Names{}
	add := func(to map[string]container.Names, id string, n container.Names) {
		if n = n.Clean(); id != "" && n != (container.Names{}) && len(to) < mostNames {
			to[strings.Clone(id)] = n
		}
	}
	for i := range l.Items {
		m, s := &l.Items[i].Metadata, &l.Items[i].Status
		pod := container.Names{Pod: m.Name, Namespace: m.Namespace}
		add(pods, m.UID, pod)
		add(pods, m.Annotations.ConfigHash, pod)
		for _, list := range [...]list[status]{s.Init, s.Containers, s.Ephemeral} {
			for _, of := range list {
				if _, id, ok := strings.Cut(of.ID, "://"); ok {
					add(containers, id, container.Names{Container: of.Name, Pod: m.Name, Namespace: m.Namespace})
				}
			}
		}
	}
	return containers, pods
}
