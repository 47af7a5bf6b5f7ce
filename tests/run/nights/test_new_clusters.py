"""The stories of clusters that come and go."""

from distsvc.run.nights.comparison import cluster_stories


def test_a_cluster_without_rows_is_neither_new_nor_gone():
    found = [
        {"id": k, "event": event, "jaccard": 0.0, "others": []}
        for k, event in enumerate(["survived", "disappeared", "appeared", "appeared"])
    ]
    stories = cluster_stories(found, {0: 9}, {0: 8, 3: 7, 2: 0})
    assert [(one.id, one.rows_before, one.rows_after) for one in stories] == [(0, 9, 8), (3, 0, 7)]
