// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestDaemonSet: the manifest has the keys and types that Kubernetes publishes, and no others; the container has the
// capabilities of the service, and what it mounts it cannot write; the program takes the file of requests.
func TestDaemonSet(t *testing.T) {
	data, err := os.ReadFile("ksnoop.daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, second, ok := bytes.Cut(data, []byte("\n---\n"))
	if !ok || bytes.Contains(second, []byte("\n---\n")) {
		t.Fatal("want two documents")
	}
	var config corev1.ConfigMap
	var set appsv1.DaemonSet
	if err := yaml.UnmarshalStrict(first, &config); err != nil {
		t.Error(err)
	}
	if err := yaml.UnmarshalStrict(second, &set); err != nil {
		t.Fatal(err)
	}
	if config.APIVersion != "v1" || config.Kind != "ConfigMap" || set.APIVersion != appsv1.SchemeGroupVersion.String() || set.Kind != "DaemonSet" || config.Namespace != set.Namespace {
		t.Errorf("%v in %s, %v in %s", config.TypeMeta, config.Namespace, set.TypeMeta, set.Namespace)
	}
	for key, value := range set.Spec.Selector.MatchLabels {
		if set.Spec.Template.Labels[key] != value {
			t.Errorf("the selector's label %s is not that of the pods", key)
		}
	}
	pod := set.Spec.Template.Spec
	if len(pod.Containers) != 1 || !pod.HostPID || pod.HostNetwork {
		t.Fatalf("%+v", pod)
	}
	c := pod.Containers[0]
	var added []string
	for _, capability := range c.SecurityContext.Capabilities.Add {
		added = append(added, "CAP_"+string(capability))
	}
	_, settings := unit(t)
	if got := strings.Join(added, " "); got != settings["CapabilityBoundingSet"] || len(c.SecurityContext.Capabilities.Drop) != 1 || c.SecurityContext.Capabilities.Drop[0] != "ALL" {
		t.Errorf("capabilities %s, without %v; the service has %s", got, c.SecurityContext.Capabilities.Drop, settings["CapabilityBoundingSet"])
	}
	if *c.SecurityContext.Privileged || *c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("%+v", c.SecurityContext)
	}
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	for _, m := range c.VolumeMounts {
		if v, ok := volumes[m.Name]; !ok || !m.ReadOnly || v.HostPath != nil && v.HostPath.Path != m.MountPath {
			t.Errorf("mount %s at %s: read-only %t, of %+v", m.Name, m.MountPath, m.ReadOnly, v.VolumeSource)
		}
	}
	if volumes["config"].ConfigMap.Name != config.Name {
		t.Errorf("the volume is of %s, the file in %s", volumes["config"].ConfigMap.Name, config.Name)
	}
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte(config.Data["agent.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(builtHere(t), "agent", "--config", file, "--check").CombinedOutput(); err != nil || !strings.Contains(string(out), "agent.yaml: 1 request\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if port := c.Ports[0]; c.LivenessProbe.HTTPGet.Path != "/healthz" || c.LivenessProbe.HTTPGet.Port.StrVal != port.Name || !strings.Contains(config.Data["agent.yaml"], ":9469\n") || port.ContainerPort != 9469 {
		t.Errorf("%+v, %+v", port, c.LivenessProbe.HTTPGet)
	}
}
