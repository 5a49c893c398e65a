// SPDX-License-Identifier: Apache-2.0

package container

import (
	"encoding/json"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Limits on what is read of the files of runtimes.
const (
	mostFile    = 4 << 20
	mostEntries = 1 << 14 // of a directory
	longestName = 253     // of a DNS name, which Kubernetes takes for pods
)

// NamesOf returns what the files of runtimes and of the kubelet call a container or a pod. root is the root directory.
// What is not there, or cannot be read, or is not as expected has no name.
func NamesOf(root fs.FS, id ID) Names {
	f := files{root}
	var n Names
	if id.Container != "" {
		for _, find := range [...]func(string) Names{f.logLink, f.bundle, f.docker, f.storage} {
			n = n.Or(find(id.Container))
		}
	}
	if id.Pod != "" && n.Pod == "" {
		n = n.Or(f.podLogs(id.Pod))
	}
	return n.Clean()
}

// Or takes what is not known from elsewhere.
func (n Names) Or(other Names) Names {
	if n.Container == "" {
		n.Container = other.Container
	}
	if n.Pod == "" {
		n.Pod, n.Namespace = other.Pod, other.Namespace
	}
	return n
}

// Clean leaves out what is no name.
func (n Names) Clean() Names {
	for _, name := range [...]*string{&n.Container, &n.Pod, &n.Namespace} {
		if len(*name) > longestName || strings.ContainsFunc(*name, func(r rune) bool {
			return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("._-", r)
		}) {
			*name = ""
		}
	}
	return n
}

// files are those of the machine.
type files struct{ root fs.FS }

// read reads a file that has JSON. It does not open what is no file.
func (f files) read(name string, to any) bool {
	if st, err := fs.Stat(f.root, name); err != nil || !st.Mode().IsRegular() || st.Size() > mostFile {
		return false
	}
	file, err := f.root.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostFile))
	return err == nil && json.Unmarshal(text, to) == nil
}

// list returns the names in a directory.
func (f files) list(name string) (names []string) {
	file, err := f.root.Open(name)
	if err != nil {
		return nil
	}
	defer file.Close()
	dir, ok := file.(fs.ReadDirFile)
	if !ok {
		return nil
	}
	entries, _ := dir.ReadDir(mostEntries) // those before an error are there all the same
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// logLink finds the link to a container's log that the kubelet makes: /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log.
func (f files) logLink(id string) (n Names) {
	for _, name := range f.list("var/log/containers") {
		rest, ok := strings.CutSuffix(name, "-"+id+".log")
		parts := strings.Split(rest, "_")
		if ok && len(parts) == 3 {
			return Names{Pod: parts[0], Namespace: parts[1], Container: parts[2]}
		}
	}
	return n
}

// podLogs finds the directory that the kubelet makes for the logs of a pod: /var/log/pods/NAMESPACE_NAME_UID.
func (f files) podLogs(uid string) (n Names) {
	for _, name := range f.list("var/log/pods") {
		if parts := strings.Split(name, "_"); len(parts) == 3 && parts[2] == uid {
			return Names{Namespace: parts[0], Pod: parts[1]}
		}
	}
	return n
}

// stateDirs are where containerd keeps the bundles of containers, in a directory for each of its namespaces.
var stateDirs = [...]string{"run/containerd", "run/k3s/containerd", "var/snap/microk8s/common/run/containerd"}

// bundle reads the annotations of a container in its OCI configuration, as containerd, nerdctl and cri-o set them.
func (f files) bundle(id string) (n Names) {
	var bundles []string
	for _, state := range stateDirs {
		tasks := path.Join(state, "io.containerd.runtime.v2.task")
		for _, namespace := range f.list(tasks) {
			bundles = append(bundles, path.Join(tasks, namespace, id))
		}
	}
	for _, storage := range storageDirs {
		bundles = append(bundles, path.Join(storage, "overlay-containers", id, "userdata"))
	}
	for _, bundle := range bundles {
		var config struct {
			Annotations map[string]string `json:"annotations"`
		}
		if f.read(path.Join(bundle, "config.json"), &config) {
			a := config.Annotations
			n = n.Or(Names{Container: a["io.kubernetes.cri.container-name"], Pod: a["io.kubernetes.cri.sandbox-name"], Namespace: a["io.kubernetes.cri.sandbox-namespace"]})
			n = n.Or(Names{Container: a["io.kubernetes.container.name"], Pod: a["io.kubernetes.pod.name"], Namespace: a["io.kubernetes.pod.namespace"]})
			n = n.Or(Names{Container: a["nerdctl/name"], Pod: a["io.kubernetes.cri-o.KubeName"], Namespace: a["io.kubernetes.cri-o.Namespace"]})
		}
	}
	return n
}

// docker reads the configuration of a container of docker.
func (f files) docker(id string) Names {
	var config struct {
		Name   string
		Config struct{ Labels map[string]string }
	}
	if !f.read(path.Join("var/lib/docker/containers", id, "config.v2.json"), &config) {
		return Names{}
	}
	l := config.Config.Labels
	labelled := Names{Container: l["io.kubernetes.container.name"], Pod: l["io.kubernetes.pod.name"], Namespace: l["io.kubernetes.pod.namespace"]}
	return labelled.Or(Names{Container: strings.TrimPrefix(config.Name, "/")})
}

// storageDirs are where podman and cri-o keep containers, as containers/storage has it.
var storageDirs = [...]string{"run/containers/storage", "var/lib/containers/storage"}

// storage reads the list of containers of podman and cri-o. The names of cri-o have the form k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT.
func (f files) storage(id string) Names {
	for _, dir := range storageDirs {
		for _, list := range [...]string{"containers.json", "volatile-containers.json"} {
			var all []struct {
				ID    string   `json:"id"`
				Names []string `json:"names"`
			}
			if !f.read(path.Join(dir, "overlay-containers", list), &all) {
				continue
			}
			for _, c := range all {
				if c.ID != id || len(c.Names) == 0 {
					continue
				}
				if parts := strings.Split(c.Names[0], "_"); len(parts) == 6 && parts[0] == "k8s" {
					return Names{Container: parts[1], Pod: parts[2], Namespace: parts[3]}
				}
				return Names{Container: c.Names[0]}
			}
		}
	}
	return Names{}
}
