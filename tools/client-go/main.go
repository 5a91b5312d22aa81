// Command clientgo speaks to an API server as Go's controllers do, and prints what it saw as JSON lines.
//
//	clientgo [-kubeconfig FILE] [-namespace NS] SCENARIO
//
// One scenario a run; `informer` runs until its standard input ends. A test compares what it prints.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var machines = schema.GroupVersionResource{Group: "kubenode.io", Version: "v1alpha1", Resource: "machines"}

type world struct {
	ctx       context.Context
	config    *rest.Config
	client    dynamic.Interface
	namespace string
}

func (w world) machines() dynamic.ResourceInterface {
	return w.client.Resource(machines).Namespace(w.namespace)
}

var scenarios = map[string]func(world) error{
	"discovery": discover,
	"mapper":    mapKinds,
	"paging":    page,
	"metadata":  readMetadata,
	"apply":     apply,
	"status":    writeStatus,
	"watch":     watchMachines,
	"informer":  inform,
}

var printing sync.Mutex

type fields map[string]any

// report prints one line; informers call it from many goroutines.
func report(what string, with fields) {
	printing.Lock()
	defer printing.Unlock()
	line := fields{"what": what}
	for key, value := range with {
		line[key] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

// refused prints what an error is to a Go program: its reason and the causes it names.
func refused(what string, err error) {
	if err == nil {
		report(what, fields{"error": nil})
		return
	}
	causes := []fields{}
	if status, ok := err.(apierrors.APIStatus); ok && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			causes = append(causes, fields{"type": cause.Type, "field": cause.Field})
		}
	}
	report(what, fields{"error": apierrors.ReasonForError(err), "causes": causes})
}

func machine(namespace, name string, content fields) *unstructured.Unstructured {
	object := map[string]any{
		"apiVersion": machines.GroupVersion().String(),
		"kind":       "Machine",
		"metadata":   map[string]any{"namespace": namespace, "name": name},
	}
	for key, value := range content {
		object[key] = value
	}
	return &unstructured.Unstructured{Object: object}
}

func managers(object metav1.Object) []string {
	names := []string{}
	for _, entry := range object.GetManagedFields() {
		names = append(names, fmt.Sprintf("%s %s %s", entry.Manager, entry.Operation, entry.Subresource))
	}
	slices.Sort(names)
	return names
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "file; its current context is used")
	namespace := flag.String("namespace", "default", "where the machines are")
	flag.Parse()
	scenario, known := scenarios[flag.Arg(0)]
	if !known || flag.NArg() != 1 {
		return fmt.Errorf("one scenario is wanted, got %q", flag.Args())
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	// Without limits of its own: what is asked is few and far between.
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if flag.Arg(0) != "informer" {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Minute)
		defer stop()
	}
	return scenario(world{ctx: ctx, config: config, client: client, namespace: *namespace})
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
