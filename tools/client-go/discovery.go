package main

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// discover lists what the group of KubeNode serves, as `kubectl api-resources` finds it, and where its schemas are.
func discover(w world) error {
	client, err := discovery.NewDiscoveryClientForConfig(w.config)
	if err != nil {
		return err
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		return err
	}
	for _, list := range lists {
		if !strings.HasPrefix(list.GroupVersion, machines.Group+"/") {
			continue
		}
		for _, resource := range list.APIResources {
			verbs := slices.Sorted(slices.Values(resource.Verbs))
			report("resource", fields{"name": resource.Name, "kind": resource.Kind, "namespaced": resource.Namespaced, "short": resource.ShortNames, "verbs": verbs})
		}
	}
	preferred, err := client.ServerPreferredResources()
	if err != nil {
		return err
	}
	for _, list := range preferred {
		if strings.HasPrefix(list.GroupVersion, machines.Group+"/") {
			report("preferred", fields{"groupVersion": list.GroupVersion})
		}
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	_, served := paths["apis/"+machines.GroupVersion().String()]
	report("openapi", fields{"v3": served})
	version, err := client.ServerVersion()
	if err != nil {
		return err
	}
	report("version", fields{"major": version.Major})
	return nil
}

// mapKinds asks a RESTMapper as controller-runtime and kubectl do: by kind, by resource, by a short name, and for what there is not.
func mapKinds(w world) error {
	client, err := discovery.NewDiscoveryClientForConfig(w.config)
	if err != nil {
		return err
	}
	cached := memory.NewMemCacheClient(client)
	deferred := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	mapper := restmapper.NewShortcutExpander(deferred, cached, func(string) {})
	for _, kind := range []string{"Machine", "DisruptionLedger", "NoSuchKind"} {
		mapping, err := mapper.RESTMapping(schema.GroupKind{Group: machines.Group, Kind: kind})
		var unknown *meta.NoKindMatchError
		if errors.As(err, &unknown) {
			report("mapping", fields{"kind": kind, "resource": nil})
			continue
		}
		if err != nil {
			return err
		}
		report("mapping", fields{"kind": kind, "resource": mapping.Resource.String(), "scope": mapping.Scope.Name()})
	}
	for _, resource := range []string{"machine", "machines", "ma", "ledger"} {
		kind, err := mapper.KindFor(schema.GroupVersionResource{Resource: resource})
		if err != nil {
			return err
		}
		report("kind", fields{"resource": resource, "kind": kind.String()})
	}
	return nil
}
