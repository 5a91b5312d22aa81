package main

import (
	"bufio"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// inform runs a shared informer over Machines until the input ends. A line of input asks for the content of its store.
func inform(w world) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(w.client, time.Hour, w.namespace, nil)
	informer := factory.ForResource(machines)
	if err := informer.Informer().SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		report("interrupted", fields{"why": err.Error()})
	}); err != nil {
		return err
	}
	seen := func(what string, object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		found := object.(*unstructured.Unstructured)
		report(what, fields{"name": found.GetName(), "uid": found.GetUID(), "version": found.GetResourceVersion(), "labels": found.GetLabels()})
	}
	registration, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { seen("add", object) },
		UpdateFunc: func(_, object any) { seen("update", object) },
		DeleteFunc: func(object any) { seen("delete", object) },
	})
	if err != nil {
		return err
	}
	factory.Start(w.ctx.Done())
	if !cache.WaitForCacheSync(w.ctx.Done(), registration.HasSynced) {
		return w.ctx.Err()
	}
	report("synced", nil)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		objects, err := informer.Lister().List(labels.Everything())
		if err != nil {
			return err
		}
		names := []string{}
		for _, object := range objects {
			found := object.(*unstructured.Unstructured)
			names = append(names, found.GetName()+" "+string(found.GetUID())+" "+found.GetResourceVersion())
		}
		slices.Sort(names)
		report("store", fields{"names": names})
	}
	return nil
}
