// SPDX-License-Identifier: Apache-2.0

package container

import (
	"strings"
	"testing"
)

const (
	id  = "81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f"
	uid = "068e8fa0-9213-11e7-a01f-507b9d4141fa"
)

// TestOf has paths of the tests of cadvisor, and others in the forms that the sources of runtimes make, which are named
// beside them.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		path string
		want ID
	}{
		// google/cadvisor, container/crio/factory_test.go
		{"/kubepods/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/crio-81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f", ID{id, uid, "cri-o"}},
		{"/kubepods/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/crio-81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f.scope", ID{id, uid, "cri-o"}},
		{"/kubepods/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/crio-81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f.mount", ID{Pod: uid}},
		{"/kubepods/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/crio-conmon-81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f", ID{Pod: uid}},
		{"/kubepods/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/crio-990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75", ID{Pod: uid}},
		{`/system.slice/system-systemd\\x2dcoredump.slice`, ID{}},
		// google/cadvisor, container/containerd/factory_test.go
		{"/kubepods/besteffort/podd76e26fba3bf2bfd215eb29011d55250/40af7cdcbe507acad47a5a62025743ad3ddc6ab93b77b21363aa1c1d641047c9",
			ID{"40af7cdcbe507acad47a5a62025743ad3ddc6ab93b77b21363aa1c1d641047c9", "d76e26fba3bf2bfd215eb29011d55250", ""}},
		{"/system.slice/run-containerd-io.containerd.runtime.v1.linux-k8s.io-14ae50f1d3ada102aec3ab00168fdafb2dc0986d79ca9e8d5b75581fa89e9fea-rootfs.mount", ID{}},
		// kubernetes/kubernetes, pkg/kubelet/cm/cgroup_manager_linux_test.go: no pod has a - there, and none such a UID
		{"/BestEffort.slice/BestEffort-pod_6c1a4e95_6bb6_11e6_bc26_28d2444e470d.slice", ID{}},
		// kubernetes/kubernetes, pkg/kubelet/cm/pod_container_manager_linux.go: "pod" and the UID, without a - between them
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod068e8fa0_9213_11e7_a01f_507b9d4141fa.slice/cri-containerd-" + id + ".scope", ID{id, uid, "containerd"}},
		// containerd/containerd, getCgroupsPath ("b.slice:cri-containerd:test-id" in its test), where runc takes it for a path
		{"/system.slice/containerd.service/kubepods-burstable-pod068e8fa0_9213_11e7_a01f_507b9d4141fa.slice:cri-containerd:" + id, ID{id, uid, "containerd"}},
		// moby/moby, daemon/oci_linux.go: by systemd "docker-ID.scope" in system.slice, by cgroupfs "/docker/ID"
		{"/system.slice/docker-" + id + ".scope", ID{id, "", "docker"}},
		{"/docker/" + id, ID{id, "", "docker"}},
		// containers/podman, getOCICgroupPath: "libpod-ID.scope", "/libpod_parent/libpod-ID"; below it crun's "container"
		{"/machine.slice/libpod-" + id + ".scope/container", ID{id, "", "podman"}},
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope", ID{id, "", "podman"}},
		{"/machine.slice/libpod-conmon-" + id + ".scope", ID{}},
		{"/libpod_parent/libpod-" + id, ID{id, "", "podman"}},
		// systemd/systemd, docs/CGROUP_DELEGATION.md: a manager in a container has its units below the container's cgroup
		{"/system.slice/docker-" + id + ".scope/system.slice/cron.service", ID{id, "", "docker"}},
		// kubernetes-sigs/kind: a node is a container, and its pods have containers; docker in docker
		{"/system.slice/docker-" + strings.Repeat("8a", 32) + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod068e8fa0_9213_11e7_a01f_507b9d4141fa.slice/cri-containerd-" + id + ".scope", ID{id, uid, "containerd"}},
		{"/docker/" + strings.Repeat("8a", 32) + "/docker/" + id, ID{id, "", "docker"}},
		{"/", ID{}}, {"", ID{}}, {"/user.slice/user-0.slice/session-1.scope", ID{}},
		{"/docker/" + strings.ToUpper(id), ID{}}, {"/docker/" + id + "0", ID{}}, {"/a/pod\x1b", ID{}}, {"/tripod" + uid, ID{}},
	} {
		if got := Of(c.path); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.path, got, c.want)
		}
	}
}

// FuzzOf: what is said of a path has the form of an ID.
func FuzzOf(f *testing.F) {
	f.Add("/kubepods/pod" + uid + "/crio-" + id)
	f.Fuzz(func(t *testing.T, path string) {
		got := Of(path)
		if got.Container != "" && (len(got.Container) != 64 || !digits(got.Container)) || got.Pod != "" && !digits(strings.ReplaceAll(got.Pod, "-", "")) || len(got.Pod) > 36 {
			t.Errorf("%q: %+v", path, got)
		}
	})
}
