// SPDX-License-Identifier: Apache-2.0

package container

import (
	"strings"
	"testing"
	"testing/fstest"
)

// at makes a file of the machine.
func at(name, text string) fstest.MapFS { return fstest.MapFS{name: {Data: []byte(text)}} }

// TestNamesOf has files as the runtimes write them; their sources are named.
func TestNamesOf(t *testing.T) {
	annotations := func(pairs ...string) string {
		var text []string
		for i := 0; i < len(pairs); i += 2 {
			text = append(text, `"`+pairs[i]+`":"`+pairs[i+1]+`"`)
		}
		return `{"ociVersion":"1.0.2","process":{"args":["sh"]},"annotations":{` + strings.Join(text, ",") + "}}"
	}
	for _, c := range []struct {
		name string
		root fstest.MapFS
		want Names
	}{
		// containerd/containerd, pkg/cri/annotations/annotations.go; the values are those of a bundle that Kubernetes' users show
		{"containerd", at("run/containerd/io.containerd.runtime.v2.task/k8s.io/"+id+"/config.json", annotations("io.kubernetes.cri.container-name", "hostname", "io.kubernetes.cri.container-type", "container",
			"io.kubernetes.cri.sandbox-name", "hostname-lb-edge-64df67bd8b-xmzhv", "io.kubernetes.cri.sandbox-namespace", "default")), Names{"hostname", "hostname-lb-edge-64df67bd8b-xmzhv", "default"}},
		{"k3s", at("run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/"+id+"/config.json", annotations("io.kubernetes.cri.container-name", "c")), Names{Container: "c"}},
		// containerd/nerdctl, pkg/labels/labels.go: labels become annotations
		{"nerdctl", at("run/containerd/io.containerd.runtime.v2.task/default/"+id+"/config.json", annotations("nerdctl/name", "web", "nerdctl/namespace", "default")), Names{Container: "web"}},
		// cri-o/cri-o, internal/lib/sandbox tests and pkg/annotations: of a container, and of the one that holds the pod
		{"cri-o", at("run/containers/storage/overlay-containers/"+id+"/userdata/config.json", annotations("io.kubernetes.container.name", "app", "io.kubernetes.pod.name", "web-0", "io.kubernetes.pod.namespace", "prod")),
			Names{"app", "web-0", "prod"}},
		{"cri-o's pod", at("var/lib/containers/storage/overlay-containers/"+id+"/userdata/config.json", annotations("io.kubernetes.cri-o.KubeName", "web-0", "io.kubernetes.cri-o.Namespace", "default")),
			Names{Pod: "web-0", Namespace: "default"}},
		// moby/moby, container/container.go: the name begins with a slash
		{"docker", at("var/lib/docker/containers/"+id+"/config.v2.json", `{"ID":"`+id+`","Name":"/relaxed_hopper","Config":{"Labels":{"a":"b"}}}`), Names{Container: "relaxed_hopper"}},
		{"cri-dockerd", at("var/lib/docker/containers/"+id+"/config.v2.json", `{"Name":"/k8s_app_web-0_prod_`+uid+`_0","Config":{"Labels":{"io.kubernetes.container.name":"app","io.kubernetes.pod.name":"web-0","io.kubernetes.pod.namespace":"prod"}}}`),
			Names{"app", "web-0", "prod"}},
		// containers/storage, containers.go: type Container
		{"podman", at("var/lib/containers/storage/overlay-containers/containers.json", `[{"id":"`+strings.Repeat("0", 64)+`","names":["other"]},{"id":"`+id+`","names":["web"],"image":"x"}]`), Names{Container: "web"}},
		// cri-o/cri-o, internal/factory/container: k8s_NAME_POD_NAMESPACE_UID_ATTEMPT
		{"cri-o's storage", at("var/lib/containers/storage/overlay-containers/volatile-containers.json", `[{"id":"`+id+`","names":["k8s_app_web-0_prod_`+uid+`_0"]}]`), Names{"app", "web-0", "prod"}},
		// kubernetes/kubernetes, pkg/kubelet/kuberuntime/legacy.go: legacyLogSymlink; kuberuntime/helpers.go: BuildPodLogsDirectory
		{"kubelet's link", at("var/log/containers/web-0_prod_app-"+id+".log", ""), Names{"app", "web-0", "prod"}},
		{"kubelet's directory", at("var/log/pods/prod_web-0_"+uid+"/app/0.log", ""), Names{Pod: "web-0", Namespace: "prod"}},

		{"nothing", fstest.MapFS{}, Names{}},
		{"no JSON", at("var/lib/docker/containers/"+id+"/config.v2.json", "{"), Names{}},
		{"another type", at("var/lib/docker/containers/"+id+"/config.v2.json", `{"Name":["/x"]}`), Names{}},
		{"hostile", at("var/lib/docker/containers/"+id+"/config.v2.json", `{"Name":"/\u001b]0;x"}`), Names{}},
		{"too long", at("var/lib/docker/containers/"+id+"/config.v2.json", `{"Name":"/`+strings.Repeat("x", 300)+`"}`), Names{}},
		{"too large", at("var/lib/docker/containers/"+id+"/config.v2.json", `{"Name":"/x","Pad":"`+strings.Repeat("x", mostFile)+`"}`), Names{}},
		{"another's", at("var/log/containers/web-0_prod_app-"+strings.Repeat("0", 64)+".log", ""), Names{}},
	} {
		if got := NamesOf(c.root, ID{Container: id, Pod: uid}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := NamesOf(at("var/log/pods/prod_web-0_"+uid+"/app/0.log", ""), ID{}); got != (Names{}) {
		t.Errorf("of no container: %+v", got)
	}
}

func TestGroupTexts(t *testing.T) {
	path := "/kubepods/pod" + uid + "/crio-" + id
	for _, c := range []struct {
		g              Group
		container, pod string
	}{
		{Group{}, "", ""}, {Group{Path: "/user.slice"}, "", ""},
		{Group{Path: path}, id[:12], uid},
		{Group{path, Names{Container: "app", Pod: "web-0", Namespace: "prod"}}, "prod/web-0/app", "prod/web-0"},
		{Group{path, Names{Pod: "web-0"}}, id[:12], "web-0"},
	} {
		if container, pod := c.g.ContainerText(), c.g.PodText(); container != c.container || pod != c.pod {
			t.Errorf("%+v: %q and %q", c.g, container, pod)
		}
	}
}

func TestSelector(t *testing.T) {
	inner := "/system.slice/docker-" + strings.Repeat("8a", 32) + ".scope/kubepods/pod" + uid + "/crio-" + id + "/x"
	web := Group{inner, Names{"app", "web-0", "prod"}}
	for _, c := range []struct {
		s    Selector
		g    Group
		want bool
	}{
		{Selector{}, Group{}, true},
		{Selector{Containers: []string{"81e5"}}, web, true}, {Selector{Containers: []string{id}}, web, true}, {Selector{Containers: []string{"e5c2"}}, web, false},
		{Selector{Containers: []string{"8a8a"}}, web, true}, // the node that it is in
		{Selector{Containers: []string{"app"}}, web, true}, {Selector{Containers: []string{"a*"}}, web, true}, {Selector{Containers: []string{"x", "app"}}, web, true}, {Selector{Containers: []string{"ap"}}, web, false},
		{Selector{Containers: []string{"*"}}, Group{Path: inner}, true}, {Selector{Containers: []string{"*"}}, Group{Path: "/user.slice"}, false}, {Selector{Containers: []string{""}}, web, false},
		{Selector{Pods: []string{"068e8fa0"}}, web, true}, {Selector{Pods: []string{"web-0"}}, web, true}, {Selector{Pods: []string{"prod/*"}}, web, true}, {Selector{Pods: []string{"test/web-0"}}, web, false},
		{Selector{Pods: []string{"web-0"}, Containers: []string{"app"}}, web, true}, {Selector{Pods: []string{"web-0"}, Containers: []string{"db"}}, web, false},
	} {
		if got := c.s.SelectsGroup(c.g); got != c.want {
			t.Errorf("%+v of %+v: %t", c.s, c.g, got)
		}
	}
}

// FuzzNames: whatever a runtime's file has, a name has the characters of names.
func FuzzNames(f *testing.F) {
	f.Add(`{"annotations":{"io.kubernetes.cri.container-name":"a\u0000"}}`, "a_b_c")
	f.Add(`{"annotations":{"io.kubernetes.cri.container-name":{}}}`, "\x1b_b_c")
	f.Fuzz(func(t *testing.T, config, log string) {
		root := fstest.MapFS{"run/containerd/io.containerd.runtime.v2.task/k8s.io/" + id + "/config.json": {Data: []byte(config)}}
		if !strings.ContainsAny(log, "/\x00") {
			root["var/log/containers/"+log+"-"+id+".log"] = &fstest.MapFile{}
		}
		n := NamesOf(root, ID{Container: id})
		if again := n.Clean(); again != n {
			t.Errorf("%+v", n)
		}
	})
}
