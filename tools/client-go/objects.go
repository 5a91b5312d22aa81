package main

import (
	"context"
	"errors"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
)

// page lists by threes: once by hand, and once with the pager that client-go's tools use.
func page(w world) error {
	options := metav1.ListOptions{Limit: 3}
	for {
		list, err := w.machines().List(w.ctx, options)
		if err != nil {
			return err
		}
		names := []string{}
		for _, item := range list.Items {
			names = append(names, item.GetName())
		}
		report("page", fields{"names": names, "remaining": list.GetRemainingItemCount(), "version": list.GetResourceVersion(), "more": list.GetContinue() != ""})
		if options.Continue = list.GetContinue(); options.Continue == "" {
			break
		}
	}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return w.machines().List(ctx, options)
	})
	pages.PageSize = 2
	count := 0
	err := pages.EachListItem(w.ctx, metav1.ListOptions{}, func(runtime.Object) error {
		count++
		return nil
	})
	report("pager", fields{"count": count})
	_, bad := w.machines().List(w.ctx, metav1.ListOptions{Limit: 3, Continue: "nonsense"})
	refused("bad continue", bad)
	return err
}

// readMetadata reads as the garbage collector does: only metadata, in Kubernetes' own binary form where the server has it.
func readMetadata(w world) error {
	client, err := metadata.NewForConfig(w.config)
	if err != nil {
		return err
	}
	list, err := client.Resource(machines).Namespace(w.namespace).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, item := range list.Items {
		report("metadata", fields{"name": item.Name, "uid": item.UID, "version": item.ResourceVersion})
	}
	return nil
}

func applied(what string, object *unstructured.Unstructured, err error) error {
	if err != nil {
		return err
	}
	report(what, fields{"spec": object.Object["spec"], "labels": object.GetLabels(), "managers": managers(object), "generation": object.GetGeneration()})
	return nil
}

// apply is two owners of one machine: what they share, what they fight over, and what one of them gives up.
func apply(w world) error {
	one := metav1.ApplyOptions{FieldManager: "one"}
	two := metav1.ApplyOptions{FieldManager: "two"}
	mine := machine(w.namespace, "applied", fields{"spec": map[string]any{"failureDomain": "a", "drainTimeoutSeconds": int64(60), "labels": map[string]any{"one": "1"}}})
	object, err := w.machines().Apply(w.ctx, "applied", mine, one)
	if err := applied("created", object, err); err != nil {
		return err
	}
	before := object.GetResourceVersion()
	object, err = w.machines().Apply(w.ctx, "applied", mine, one)
	if err := applied("again", object, err); err != nil {
		return err
	}
	report("unchanged", fields{"same": object.GetResourceVersion() == before})
	theirs := machine(w.namespace, "applied", fields{"spec": map[string]any{"failureDomain": "b", "labels": map[string]any{"two": "2"}}})
	_, err = w.machines().Apply(w.ctx, "applied", theirs, two)
	refused("conflict", err)
	two.Force = true
	object, err = w.machines().Apply(w.ctx, "applied", theirs, two)
	if err := applied("forced", object, err); err != nil {
		return err
	}
	less := machine(w.namespace, "applied", fields{"spec": map[string]any{"labels": map[string]any{"one": "1"}}})
	object, err = w.machines().Apply(w.ctx, "applied", less, one)
	if err := applied("given up", object, err); err != nil {
		return err
	}
	bad := machine(w.namespace, "applied", fields{"spec": map[string]any{"drainTimeoutSeconds": "soon"}})
	_, err = w.machines().Apply(w.ctx, "applied", bad, one)
	refused("invalid", err)
	foreign := machine(w.namespace, "applied", fields{"spec": map[string]any{"noSuchField": true}})
	_, err = w.machines().Apply(w.ctx, "applied", foreign, one)
	refused("unknown field", err)
	_, err = w.machines().Patch(w.ctx, "applied", types.MergePatchType, []byte(`{"spec":{"noSuchField":1}}`), metav1.PatchOptions{FieldValidation: "Strict"})
	refused("strict", err)
	return nil
}

// writeStatus writes through the subresource: what is beside the status has no effect, and a version that is over is refused.
func writeStatus(w world) error {
	made, err := w.machines().Create(w.ctx, machine(w.namespace, "reported", fields{
		"spec":   map[string]any{"failureDomain": "a"},
		"status": map[string]any{"phase": "Running"},
	}), metav1.CreateOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	report("created", fields{"status": made.Object["status"]})
	next := made.DeepCopy()
	next.Object["status"] = map[string]any{"phase": "Running"}
	next.Object["spec"] = map[string]any{"failureDomain": "b"}
	reported, err := w.machines().UpdateStatus(w.ctx, next, metav1.UpdateOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	report("reported", fields{"spec": reported.Object["spec"], "status": reported.Object["status"], "generation": reported.GetGeneration(), "managers": managers(reported)})
	_, err = w.machines().UpdateStatus(w.ctx, next, metav1.UpdateOptions{FieldManager: "one"})
	refused("stale", err)
	byApply := machine(w.namespace, "reported", fields{"status": map[string]any{"providerID": "go://reported"}})
	reported, err = w.machines().ApplyStatus(w.ctx, "reported", byApply, metav1.ApplyOptions{FieldManager: "two"})
	if err != nil {
		return err
	}
	report("applied", fields{"status": reported.Object["status"], "managers": managers(reported)})
	read, err := w.machines().Get(w.ctx, "reported", metav1.GetOptions{}, "status")
	if err != nil {
		return err
	}
	report("read", fields{"status": read.Object["status"], "same": read.GetResourceVersion() == reported.GetResourceVersion()})
	_, err = w.machines().Get(w.ctx, "absent", metav1.GetOptions{})
	refused("absent", err)
	return nil
}

// watchMachines watches from a version that was read, sees exactly what was written after it, and then a bookmark.
func watchMachines(w world) error {
	make := func(name string) error {
		_, err := w.machines().Create(w.ctx, machine(w.namespace, name, fields{"spec": map[string]any{}}), metav1.CreateOptions{})
		return err
	}
	if err := make("before"); err != nil {
		return err
	}
	list, err := w.machines().List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := make("after"); err != nil {
		return err
	}
	if _, err := w.machines().Patch(w.ctx, "before", types.MergePatchType, []byte(`{"metadata":{"labels":{"seen":"yes"}}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := w.machines().Delete(w.ctx, "after", metav1.DeleteOptions{}); err != nil {
		return err
	}
	seconds := int64(3)
	events, err := w.machines().Watch(w.ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	if err != nil {
		return err
	}
	began := time.Now()
	for event := range events.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return errors.New("the watch ended with an error")
		}
		if event.Type != watch.Bookmark {
			report("event", fields{"type": event.Type, "name": object.GetName(), "labels": object.GetLabels()})
		}
	}
	report("ended", fields{"inTime": time.Since(began) < 13*time.Second})
	bookmark, err := initialEvents(w)
	if err != nil {
		return err
	}
	// What a bookmark names can be watched from: nothing before it comes again.
	if err := make("later"); err != nil {
		return err
	}
	resumed, err := w.machines().Watch(w.ctx, metav1.ListOptions{ResourceVersion: bookmark})
	if err != nil {
		return err
	}
	first, open := <-resumed.ResultChan()
	resumed.Stop()
	if !open {
		return io.ErrUnexpectedEOF
	}
	report("resumed", fields{"type": first.Type, "name": first.Object.(*unstructured.Unstructured).GetName()})
	return nil
}

// initialEvents watches without a list before: what there is comes as events, and a bookmark marks where they end.
func initialEvents(w world) (string, error) {
	yes := true
	events, err := w.machines().Watch(w.ctx, metav1.ListOptions{AllowWatchBookmarks: true, SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil {
		return "", err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return "", errors.New("the watch ended with an error")
		}
		report("initial", fields{"type": event.Type, "name": object.GetName(), "ends": object.GetAnnotations()[metav1.InitialEventsAnnotationKey]})
		if event.Type == watch.Bookmark {
			return object.GetResourceVersion(), nil
		}
	}
	return "", io.ErrUnexpectedEOF
}
