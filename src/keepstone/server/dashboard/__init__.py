"""The dashboard: pages for people, at /.

Server-rendered; the one script only makes what is there quicker to use. `mount` puts it on the application.
"""
