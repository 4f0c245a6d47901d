package main

import (
	"context"
	"log"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// pods takes every pod of the cluster to its node, since no scheduler runs. What a pod needs next is read from the
// pod alone, so that whatever failed is done when it is seen again.
type pods struct {
	client kubernetes.Interface
	node   string
	// The address before the next pod's, in each family. No address is given twice.
	last       []netip.Addr
	known      cache.Store
	controller cache.Controller
}

// resync is how long what failed waits.
const resync = time.Second

func newPods(client kubernetes.Interface, node string, ranges []netip.Prefix) *pods {
	p := &pods{client: client, node: node}
	for _, prefix := range ranges {
		p.last = append(p.last, prefix.Masked().Addr())
	}
	p.known, p.controller = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, fields.Everything()),
		ObjectType:    &corev1.Pod{},
		ResyncPeriod:  resync,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(pod any) { p.see(pod.(*corev1.Pod)) },
			UpdateFunc: func(_, pod any) { p.see(pod.(*corev1.Pod)) },
		},
	})
	return p
}

func (p *pods) tend() {
	p.controller.Run(make(chan struct{}))
}

func (p *pods) see(pod *corev1.Pod) {
	err := p.next(context.Background(), pod)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		log.Printf("pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
}

// next does what comes next in the life of a pod.
func (p *pods) next(ctx context.Context, pod *corev1.Pod) error {
	of := p.client.CoreV1().Pods(pod.Namespace)
	switch {
	case pod.Spec.NodeName == "":
		return of.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: p.node},
		}, metav1.CreateOptions{})
	case pod.Spec.NodeName != p.node:
		return nil
	case pod.DeletionTimestamp != nil:
		at := metav1.NewDeleteOptions(0)
		at.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
		return of.Delete(ctx, pod.Name, *at)
	case pod.Status.Phase == corev1.PodRunning:
		return nil
	}
	running := pod.DeepCopy()
	running.Status = p.running(pod)
	_, err := of.UpdateStatus(ctx, running, metav1.UpdateOptions{})
	return err
}

// running is the status of a pod whose containers have all started and are ready.
func (p *pods) running(pod *corev1.Pod) corev1.PodStatus {
	now := metav1.Now()
	status := corev1.PodStatus{Phase: corev1.PodRunning, HostIP: loopback, StartTime: &now}
	for i := range p.last {
		p.last[i] = p.last[i].Next()
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: p.last[i].String()})
	}
	status.PodIP = status.PodIPs[0].IP
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	started := true
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, Started: &started,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}

// runsHere is whether a pod of this name runs on the node.
func (p *pods) runsHere(namespace, name string) (*corev1.Pod, bool) {
	found, exists, err := p.known.GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil, false
	}
	pod := found.(*corev1.Pod)
	return pod, pod.Spec.NodeName == p.node && pod.Status.Phase == corev1.PodRunning
}
